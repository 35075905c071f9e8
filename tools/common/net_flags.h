// Flags about nets that several commands read.
#pragma once

#include <map>
#include <string>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::tools {

// "data:1,3,224,224;label:1". Throws kInvalidArgument.
std::map<std::string, Shape> ParseShapes(const std::string& text);

// "test" or "train" (any case), NetState.level and its stages, separated by commas. Throws
// kInvalidArgument.
NetState ParseState(const std::string& phase, int level, const std::string& stages);

// "FP32" or "BF16" (any case), as `what` gives it. Throws kInvalidArgument.
Precision ParsePrecision(const std::string& what, const std::string& name);

// As ParseState, for the training net of a solver, on top of what its text says.
void SetTrainState(int level, const std::string& stages, SolverParameter* solver);

}  // namespace crema::tools
