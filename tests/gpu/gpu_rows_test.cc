// Which layers have GPU code. What it computes is compared by layers_test (every sample) and
// rows_test (random cases).
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "support/gpu.h"
#include "support/layer_case.h"

namespace crema::test {
namespace {

bool HasGpuRow(const LayerType& type) {
  return std::ranges::any_of(type.kernels,
                             [](const Kernel& k) { return k.device == DeviceType::kCuda; });
}

// Sources run on the host, and views need no code.
bool NeedsCode(const LayerType& type) {
  return type.inputs.min > 0 && std::ranges::any_of(type.samples, [&](const LayerSample& sample) {
           return !LayerCase(type, sample, DType::kF32).info().view;
         });
}

const std::map<std::string, std::string>& Missing() {
  static const std::map<std::string, std::string> reasons{
      {"DetectionEvaluate", "sorts boxes in lists of the host"},
      {"DetectionOutput", "sorts boxes in lists of the host; its extents depend on values"},
      {"Filter", "its extents depend on values"},
      {"MultiBoxLoss", "matches boxes in lists of the host"},
      {"Proposal", "sorts boxes in lists of the host; its extents depend on values"},
  };
  return reasons;
}

TEST(GpuRows, AreThereForAllLayersBut) {
  std::set<std::string> missing;
  for (const std::string& name : LayersWithGpuRows().Names()) {
    const LayerType& type = *LayersWithGpuRows().Find(name);
    if (NeedsCode(type) && !HasGpuRow(type)) missing.insert(name);
  }
  std::set<std::string> known;
  for (const auto& [name, reason] : Missing()) known.insert(name);
  EXPECT_EQ(missing, known);
}

}  // namespace
}  // namespace crema::test
