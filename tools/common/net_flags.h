// Flags about nets, shared by several commands.
#pragma once

#include <map>
#include <string>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::tools {

// Parses "data=1x3x224x224,label=1", or "data:1,3,224,224;label:1". Throws kInvalidArgument.
std::map<std::string, Shape> ParseShapes(const std::string& text);

// Parses "test" or "train" (any case), NetState.level and its stages, separated by commas. Throws
// kInvalidArgument.
NetState ParseState(const std::string& phase, int level, const std::string& stages);

// Parses "FP32", "BF16", "TF32" or "FP16" (any case). `what` names the origin in messages. Throws
// kInvalidArgument.
Precision ParsePrecision(const std::string& what, const std::string& name);

// Adds level and stages to the training state of a solver.
void SetTrainState(int level, const std::string& stages, SolverParameter* solver);

}  // namespace crema::tools
