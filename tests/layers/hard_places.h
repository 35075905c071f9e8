// Runs layers that sample at computed places on places where no element is.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_expect.h"
#include "support/layer_run.h"

namespace crema::test {

// Runs the first sample of a type with these values in input `input`, on each implementation.
// Memory is guarded: reading or writing outside fails.
inline void ExpectInBounds(const std::string& type, size_t input, const Values& hard) {
  const LayerType& found = *LayersWithGpuImplementations().Find(type);
  const LayerCase layer_case(found, found.samples[0], DType::kF32);
  CaseValues values = DrawValues(layer_case);
  for (size_t i = 0; i < values.inputs[input].size(); ++i) {
    values.inputs[input][i] = hard[i % hard.size()];
  }
  const auto run = [&](const Implementation* implementation) {
    const RunResult result =
        RunLayer(layer_case, values, {.backward = true, .implementation = implementation});
    for (const std::string& failure : result.failures) ADD_FAILURE() << type << ": " << failure;
    return result;
  };
  run(nullptr);
  for (const ImplementationPtr& implementation : found.implementations) {
    if (!implementation->output_format.type) run(implementation.get());
  }
}

// Places that are far away, or no numbers.
inline Values HardPlaces() {
  return {3e38, -3e38, std::nan(""), kInfinity, -kInfinity, 1e9, -1e9, 1e19, 0.5};
}

}  // namespace crema::test
