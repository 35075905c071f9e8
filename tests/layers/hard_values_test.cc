// NaN and infinities in an input: where native gives NaN, an infinity or a finite number, every
// other implementation gives the same, except where this file says why not.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/strings.h"
#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_expect.h"
#include "support/layer_run.h"

namespace crema::test {
namespace {

using test::kInfinity;

constexpr std::array<double, 3> kHardValues = {std::numeric_limits<double>::quiet_NaN(), kInfinity,
                                               -kInfinity};

struct KnownDifference {
  std::string_view type;
  std::string_view implementation;  // the beginning of its name
  std::string_view reason;
};
constexpr std::array<KnownDifference, 4> kDifferences = {{
    {"Convolution", "onednn", "oneDNN's ReLU makes NaN 0, or -infinity NaN"},
    {"LRN", "", "native, like Caffe, sums along the channels: NaN reaches all channels after it"},
    {"BatchNorm", "blocked", "native makes all of a channel with an infinity NaN"},
    {"MVN", "cuda", "native makes all but NaN infinite in a channel with an infinity"},
}};

bool IsKnown(const LayerType& type, const Implementation& implementation) {
  return std::ranges::any_of(kDifferences, [&](const KnownDifference& difference) {
    return difference.type == type.name &&
           implementation.name.starts_with(difference.implementation);
  });
}

enum class Kind { kFinite, kNaN, kPositive, kNegative };

Kind KindOf(double value) {
  if (std::isnan(value)) return Kind::kNaN;
  if (std::isfinite(value)) return Kind::kFinite;
  return value > 0 ? Kind::kPositive : Kind::kNegative;
}

// Returns the index of the first element of another kind.
std::optional<size_t> FirstOfAnotherKind(const Values& a, const Values& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (KindOf(a[i]) != KindOf(b[i])) return i;
  }
  return {};
}

// Returns false if no input takes such a value.
bool Plant(const LayerSample& sample, double value, CaseValues* values) {
  for (size_t i = 0; i < values->inputs.size(); ++i) {
    Values& input = values->inputs[i];
    if (sample.inputs[i].integer || input.empty()) continue;
    input[input.size() / 2] = value;
    return true;
  }
  return false;
}

class HardValues : public testing::TestWithParam<std::string> {
 protected:
  void CompareAll(const LayerType& type, const LayerSample& sample, double value) {
    const LayerCase layer_case(type, sample, DType::kF32);
    CaseValues values = DrawValues(layer_case);
    if (!Plant(sample, value, &values)) return;
    RunResult native;
    try {
      native = RunLayer(layer_case, values, {.backward = sample.gradient});
    } catch (const Error&) {
      return;  // refuses the value
    }
    for (const ImplementationPtr& implementation : type.implementations) {
      const OpDesc query{.layer = layer_case.layer(),
                         .context = layer_case.infer_context(),
                         .info = layer_case.info(),
                         .threads = 1,
                         .backward = sample.gradient,
                         .to_input = sample.gradient};
      // 16-bit types round the large to infinity, the small to 0.
      const bool rounds = implementation->output_format.type.has_value();
      if (rounds || !implementation->Supports(query).yes) continue;
      const RunResult other =
          RunLayer(layer_case, values,
                   {.backward = sample.gradient, .implementation = implementation.get()});
      Compare(native, other, type, *implementation, StrCat(sample.name, " with ", value));
    }
  }

 private:
  void Compare(const RunResult& native, const RunResult& other, const LayerType& type,
               const Implementation& implementation, const std::string& how) {
    for (size_t o = 0; o < native.outputs.size(); ++o) {
      const auto at = FirstOfAnotherKind(native.outputs[o], other.outputs[o]);
      if (!at || IsKnown(type, implementation)) continue;
      ADD_FAILURE() << how << ": " << implementation.name << " gives " << other.outputs[o][*at]
                    << " at element " << *at << " of output " << o << ", native "
                    << native.outputs[o][*at];
    }
  }
};

TEST_P(HardValues, ReachTheOutputsAlike) {
  const LayerType& type = *LayersWithGpuImplementations().Find(GetParam());
  for (const LayerSample& sample : type.samples) {
    for (const double value : kHardValues) CompareAll(type, sample, value);
  }
}

std::string TypeWithImplementations(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

std::vector<std::string> TypesWithImplementations() {
  std::vector<std::string> names = LayersWithGpuImplementations().Names();
  std::erase_if(names, [](const std::string& name) {
    return LayersWithGpuImplementations().Find(name)->implementations.empty();
  });
  return names;
}

INSTANTIATE_TEST_SUITE_P(Builtin, HardValues, testing::ValuesIn(TypesWithImplementations()),
                         TypeWithImplementations);

}  // namespace
}  // namespace crema::test
