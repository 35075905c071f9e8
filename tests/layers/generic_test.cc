// Runs the generic checker on every sample of every built-in layer, on a thread with as small a
// stack as programs give to theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <map>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "support/gpu.h"
#include "support/layer_case.h"
#include "support/layer_checker.h"
#include "support/layer_run.h"
#include "support/small_stack.h"

namespace crema::test {
namespace {

// Layers that need files to run, or a program that feeds them; their own tests do so.
constexpr std::array<std::string_view, 10> kNeedFiles = {
    "AnnotatedData", "Data",       "HDF5Data", "HDF5Output", "HDF5SequenceData",
    "ImageData",     "MemoryData", "Python",   "VideoData",  "WindowData"};

const Registry& Layers() { return LayersWithGpuImplementations(); }

struct SampleCase {
  std::string type;
  size_t sample;

  friend std::ostream& operator<<(std::ostream& out, const SampleCase& value) {
    return out << value.type << " sample " << value.sample;
  }
};

std::vector<SampleCase> AllCases() {
  std::vector<SampleCase> cases;
  for (const std::string& name : Layers().Names()) {
    const size_t samples = Layers().Find(name)->samples.size();
    for (size_t i = 0; i < samples; ++i) cases.push_back({name, i});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<SampleCase>& info) {
  std::string name =
      info.param.type + "_" + Layers().Find(info.param.type)->samples[info.param.sample].name;
  std::ranges::replace_if(
      name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

class LayerSampleTest : public testing::TestWithParam<SampleCase> {};

TEST_P(LayerSampleTest, KeepsTheContract) {
  const LayerType& type = *Layers().Find(GetParam().type);
  // CUDA's libraries, which compile kernels on the caller's thread, get the stack of any thread.
  OnSmallStack(size_t{HasGpu() ? 8192U : 256U} << 10, [&] {
    for (const std::string& failure : CheckLayerSample(type, type.samples[GetParam().sample])) {
      ADD_FAILURE() << failure;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Builtin, LayerSampleTest, testing::ValuesIn(AllCases()), CaseName);

std::string TypeName(const testing::TestParamInfo<std::string>& info) { return info.param; }

class LayerTypeTest : public testing::TestWithParam<std::string> {};

TEST_P(LayerTypeTest, RefusesItsBadSamples) {
  const LayerType& type = *Layers().Find(GetParam());
  for (const BadSample& sample : type.bad_samples) {
    for (const std::string& failure : CheckBadSample(type, sample)) ADD_FAILURE() << failure;
  }
}

TEST_P(LayerTypeTest, HasSamplesWithDistinctNames) {
  const LayerType& type = *Layers().Find(GetParam());
  if (std::ranges::find(kNeedFiles, type.name) != kNeedFiles.end()) GTEST_SKIP() << "needs files";
  EXPECT_FALSE(type.samples.empty());
  std::vector<std::string> names;
  for (const LayerSample& sample : type.samples) names.push_back(sample.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

// Types without samples are shown by a text that must be right as well.
TEST_P(LayerTypeTest, HasAnExample) {
  const LayerType& type = *Layers().Find(GetParam());
  if (type.example.empty()) {
    EXPECT_FALSE(type.samples.empty());
    return;
  }
  const NetFile net =
      ParseNet(StrCat("layer { name: 'x' type: '", type.name, "' ", type.example, " }"), "example");
  EXPECT_TRUE(net.warnings.empty()) << ToString(net.warnings.front());
  if (type.name == "Python") GTEST_SKIP() << "needs the class";
  EXPECT_NO_THROW(type.make(net.net.layer(0)));
}

// A sample with `gradient = false` runs no backward pass: only for layers that have none.
TEST_P(LayerTypeTest, HasASampleThatChecksItsGradient) {
  const LayerType& type = *Layers().Find(GetParam());
  if (std::ranges::any_of(type.samples, &LayerSample::gradient)) return;
  for (const LayerSample& sample : type.samples) {
    const LayerInfo info = LayerCase(type, sample, DType::kF32).info();
    for (size_t i = 0; i < sample.inputs.size(); ++i) {
      const bool forbidden = i < info.gradient_forbidden.size() && info.gradient_forbidden[i];
      EXPECT_TRUE(sample.inputs[i].integer || forbidden)
          << sample.name << ": set LayerInfo::gradient_forbidden, or LayerSample::gradient";
    }
  }
}

// Otherwise users would read that the message has no effect.
TEST_P(LayerTypeTest, ListsTheMessagesOfItsSamples) {
  const LayerType& type = *Layers().Find(GetParam());
  for (const LayerSample& sample : type.samples) {
    const LayerParameter param =
        MakeParameter(type, sample.prototxt, sample.inputs.size(), sample.outputs);
    std::vector<const google::protobuf::FieldDescriptor*> fields;
    param.GetReflection()->ListFields(param, &fields);
    for (const auto* field : fields) {
      if (!field->name().ends_with("_param")) continue;
      EXPECT_NE(std::ranges::find(type.param_fields, field->name()), type.param_fields.end())
          << "add " << field->name() << " to LayerType::param_fields";
    }
  }
}

TEST_P(LayerTypeTest, IsDocumented) {
  const LayerType& type = *Layers().Find(GetParam());
  EXPECT_FALSE(type.category.empty());
  EXPECT_FALSE(type.summary.empty());
  EXPECT_FALSE(type.formula.empty());
  EXPECT_EQ(type.input_docs.empty(), type.inputs.max == 0);
  EXPECT_EQ(type.output_docs.empty(), type.outputs.max == 0);
  for (const LayerSample& sample : type.samples) {
    const LayerCase layer_case(type, sample, DType::kF32);
    const size_t parameters = layer_case.info().parameters.size();
    // One text may stand for the blobs of the other direction of a recurrent layer.
    const bool repeats = !type.parameter_docs.empty() &&
                         type.parameter_docs.back().starts_with("BIDIRECTIONAL: the same");
    EXPECT_GE(type.parameter_docs.size() * (repeats ? 2 : 1), parameters) << sample.name;
  }
  for (const std::string& field : type.param_fields) {
    EXPECT_NE(LayerParameter::descriptor()->FindFieldByName(field), nullptr) << field;
  }
}

// Categories whose types compute in f32: sums over a batch, states that are fed back, places.
constexpr std::array<std::string_view, 5> kInF32 = {"detection", "input", "loss", "metric",
                                                    "recurrent"};
// Types of other categories, and why they do.
const std::map<std::string, std::set<std::string, std::less<>>>& TypesInF32() {
  static const std::map<std::string, std::set<std::string, std::less<>>> types = {
      {"grow fast, or are steep",
       {"Exp", "LargeMarginInnerProduct", "Log", "MarginInnerProduct", "Power", "Unary"}},
      {"sum up over many",
       {"CosineSimilarity", "CumSum", "Einsum", "LogSoftmax", "MVN", "Normalize", "NormalizeBBox",
        "Reduction", "Softmax"}},
      {"compare or count",
       {"ArgMax", "BatchReindex", "Binary", "CheckWhole", "Embed", "Filter", "Gather", "OneHot",
        "Scatter", "Threshold", "TopK"}},
      {"change the type, or compute nothing", {"Cast", "Parameter", "Reorder", "Silence"}},
      {"have statistics that are not ParameterInfo::statistic when they are frozen", {"BN"}},
      {"were never measured in 16 bits",
       {"DeformableConvolution", "GridSample", "Im2col", "Interp", "Resize", "SPP",
        "SpatialTransformer", "Tile", "UnPooling", "Upsample"}},
  };
  return types;
}

bool StaysInF32(const LayerType& type) {
  if (std::ranges::find(kInF32, type.category) != kInF32.end()) return true;
  return std::ranges::any_of(TypesInF32(),
                             [&](const auto& entry) { return entry.second.contains(type.name); });
}

TEST_P(LayerTypeTest, HasTheTraitsOfItsImplementations) {
  const LayerType& type = *Layers().Find(GetParam());
  const auto has = [&](const auto& is) { return std::ranges::any_of(type.implementations, is); };
  const bool on_gpu =
      has([](const ImplementationPtr& k) { return k->device == DeviceType::kCuda; });
  const bool on_bytes = has([](const ImplementationPtr& k) {
    return k->input_format.type == DType::kU8 || k->output_format.type == DType::kU8;
  });
  const bool fits = type.traits.fits_16_bits;
  EXPECT_TRUE(!fits || has([](const ImplementationPtr& k) { return k->name.ends_with(" f16"); }));
  if (on_gpu) {
    EXPECT_NE(fits, StaysInF32(type))
        << "decide: LayerTraits::fits_16_bits, or an entry in TypesInF32 with the reason";
  }
  // Implementations of products come with a library.
  const bool claims_bytes = type.traits.computes_on_bytes;
  EXPECT_TRUE(claims_bytes || !on_bytes) << "set LayerTraits::computes_on_bytes";
  EXPECT_TRUE(on_bytes || !claims_bytes || type.traits.multiplies_matrices)
      << "has no implementation on bytes";
}

TEST(LayerTypes, ExceptionsExist) {
  for (const auto& [reason, names] : TypesInF32()) {
    for (const std::string& name : names) EXPECT_NE(Layers().Find(name), nullptr) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Builtin, LayerTypeTest, testing::ValuesIn(Layers().Names()), TypeName);

}  // namespace
}  // namespace crema::test
