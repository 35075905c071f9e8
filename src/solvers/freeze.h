// freeze: layers that keep their weights.
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

// The layers of a plan with learned blobs whose whole name matches one of the patterns, in order.
// Throws kInvalidArgument, with the place in the solver's text, for patterns that match none.
std::vector<std::string> FrozenLayers(const SolverFile& solver, const Plan& plan);

// Writes into the text what keeps these layers still: lr_mult and decay_mult 0 for all their blobs
// and those of layers that share them, and stored statistics for BatchNorm, which then neither uses
// nor gathers those of the batch. `plan` is the net as it was before.
void Freeze(const std::vector<std::string>& layers, const Plan& plan, NetParameter* net);

}  // namespace crema
