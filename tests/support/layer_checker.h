// The generic checker: the requirements of every layer, run on the samples that it registers.
//
//   for (const LayerSample& sample : type.samples) {
//     for (const std::string& failure : CheckLayerSample(type, sample)) ADD_FAILURE() << failure;
//   }
#pragma once

#include <string>
#include <vector>

#include "graph/registry.h"

namespace crema::test {

// Runs one sample directly against the Layer interface and returns its faults. Checks
// - the numeric gradient in f64, for inputs and parameters, under a random weighting of outputs;
// - that gradients of parameters are added to, those of inputs overwritten, also one at a time;
// - bounds of every buffer, and that inputs are not changed;
// - that backward reads only what Infer declared;
// - f32 against f64, in place against out of place, with and without saving for backward;
// - one thread against three, a run against its repetition, two threads sharing the layer;
// - every CPU implementation that supports the sample, against the native methods;
// - the facts that LayerInfo states, in both directions (support/fact_checker.h).
std::vector<std::string> CheckLayerSample(const LayerType& type, const LayerSample& sample);

// Making or inferring it must throw an Error that names the layer and contains `expect`.
std::vector<std::string> CheckBadSample(const LayerType& type, const BadSample& sample);

}  // namespace crema::test
