// Concat without copies where there are several images: each input is a range of the channels of
// each image of the output, and is written there.
#pragma once

#include <vector>

#include "plan/plan.h"

namespace crema {

// Sets PlannedLayer::can_concat_in_place where the implementations that make the inputs can write
// with strides (ImplementationFacts::strided_output) and nobody else reads what they make. Requires
// chosen implementations and fused layers (plan/passes/fuse.h).
void MarkConcatsInPlace(Plan* plan);

// A value and those in front of it that are the same under another name, the nearest first: the
// layer of the last one writes them all.
std::vector<int> NamesOf(const Plan& plan, int value);

}  // namespace crema
