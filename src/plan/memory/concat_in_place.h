// In-place concat for several images: the producers write each input as a channel range of each
// image of the output.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace crema {

// Sets PlannedLayer::can_concat_in_place if the producers of the inputs can write with strides
// (ImplementationFacts::strided_output) and no other layer reads their outputs. Requires chosen
// implementations and fused layers (plan/passes/fuse.h).
void MarkConcatsInPlace(Plan* plan);

// Returns a value and the values before it that alias it under another name, the nearest first. The
// producer of the last one writes them all.
std::vector<int> NamesOf(const Plan& plan, int value);

}  // namespace crema
