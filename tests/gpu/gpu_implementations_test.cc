// The layers that have GPU code. Its results are compared by layers_test (every sample) and
// implementations_test (random cases).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "graph/implementation.h"
#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_run.h"

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

// A kernel body cannot throw.
TEST(GpuImplementations, AWholeNumberThatMayBeRoundedBecomesNaN) {
  const LayerType& type = *LayersWithGpuImplementations().Find("CheckWhole");
  const LayerSample sample{.name = "three", .prototxt = "", .inputs = {{.shape = {3}}}};
  const LayerCase layer_case(type, sample, DType::kF32);
  CaseValues values;
  values.inputs = {{0x1p24, -3, 0x1p24 - 1}};
  const auto code = std::ranges::find(type.implementations, DeviceType::kCuda,
                                      [](const ImplementationPtr& k) { return k->device; });
  const Values got = RunLayer(layer_case, values, {.implementation = code->get()}).outputs[0];
  EXPECT_TRUE(std::isnan(got[0]));
  EXPECT_EQ(Values(got.begin() + 1, got.end()), (Values{-3, 0x1p24 - 1}));
}

}  // namespace
}  // namespace crema::test
