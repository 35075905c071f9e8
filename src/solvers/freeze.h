// freeze: layers whose weights do not change.
#pragma once

#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "plan/plan.h"

namespace crema {

// Returns the problems of the patterns themselves, which are in RE2 syntax; where.field names the
// field ("freeze[1]").
std::vector<Problem> CheckFreeze(const SolverParameter& param);

// Returns the layers of a plan with parameters whose whole name matches one of the patterns, in
// order. Throws kInvalidArgument, with the position in the solver's text, for patterns that match
// none.
std::vector<std::string> FrozenLayers(const SolverFile& solver, const Plan& plan);

// Changes the text of the net to freeze these layers: lr_mult and decay_mult 0 for all their
// parameters and those of layers that share them, and use_global_stats for BatchNorm, which then
// neither uses nor updates batch statistics. `plan` is the plan of the unchanged net.
void Freeze(const std::vector<std::string>& layers, const Plan& plan, NetParameter* net);

}  // namespace crema
