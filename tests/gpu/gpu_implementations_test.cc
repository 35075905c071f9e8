// The layers that have GPU code. Its results are compared by layers_test (every sample) and
// implementations_test (random cases).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "graph/implementation.h"
#include "support/gpu.h"
#include "support/layer_case.h"

namespace crema::test {
namespace {

bool HasGpuImplementation(const LayerType& type) {
  return std::ranges::any_of(type.implementations, [](const ImplementationPtr& k) {
    return k->device == DeviceType::kCuda;
  });
}

// Sources run on the host, and views need no code.
bool NeedsCode(const LayerType& type) {
  return type.inputs.min > 0 && std::ranges::any_of(type.samples, [&](const LayerSample& sample) {
           return !LayerCase(type, sample, DType::kF32).info().view;
         });
}

TEST(GpuImplementations, AreThereForAllLayers) {
  int with_code = 0;
  for (const std::string& name : LayersWithGpuImplementations().Names()) {
    const LayerType& type = *LayersWithGpuImplementations().Find(name);
    if (!NeedsCode(type)) continue;
    EXPECT_TRUE(HasGpuImplementation(type)) << name;
    ++with_code;
  }
  EXPECT_GT(with_code, 90);
}

}  // namespace
}  // namespace crema::test
