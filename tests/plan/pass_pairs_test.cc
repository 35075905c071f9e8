// Each pass on a net that it changes: the plan without the pass and the plan with it.
#include <gtest/gtest.h>

#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/lmdb.h"
#include "plan/plan_parts.h"
#include "plan/plan_passes.h"
#include "support/net.h"
#include "support/temp_dir.h"

namespace crema {
namespace {

using test::kGpu;

struct PassPair {
  std::string pass;  // as in --passes
  std::string net;
  Phase phase = TEST;
  PlanOptions options = {};
  std::string before;
  std::string after;
  std::vector<std::pair<std::string, ImplementationPtr>> implementations = {};  // further, by type
};

constexpr const char* kStandIn = "stand-in";
constexpr const char* kImages = "IMAGES";  // in nets: a data set
constexpr MemoryFormat kHalf{Layout::kNHWC, DType::kBF16};

// Implementations that every build and processor has. They are planned with, not run.
ImplementationPtr StandIn(ImplementationFacts facts) {
  return MakeSimpleImplementation(std::move(facts),
                                  {.seconds = [](const OpDesc&) { return 1e-9; }});
}

void PrintTo(const PassPair& pair, std::ostream* out) { *out << pair.pass; }

// The names, and the formats that are not plain.
std::string Names(const Plan& plan, const std::vector<int>& values) {
  std::string text;
  for (const int v : values) {
    const PlannedValue& value = plan.values[static_cast<size_t>(v)];
    text += " " + value.name;
    if (value.spec.format != MemoryFormat{}) text += " [" + ToString(value.spec.format) + "]";
    if (value.spec.dtype == DType::kU8) text += " [u8]";
  }
  return text;
}

// One line a layer: type, inputs, outputs, and facts that passes decide on.
std::string Describe(const Plan& plan) {
  std::string text;
  for (const PlannedLayer& layer : plan.layers) {
    text += StrCat(layer.type->name, Names(plan, layer.inputs), " ->", Names(plan, layer.outputs));
    const ConvolutionParameter& conv = layer.layer->param().convolution_param();
    if (conv.stride_size() > 0) text += StrCat(", stride ", conv.stride(0));
    if (layer.implementation != nullptr && layer.implementation->name == kStandIn) {
      text += ", by the stand-in";
    }
    if (layer.in_place) text += ", in place";
    if (layer.concat_in_place != ConcatPlace::kNone) text += ", nothing to copy";
    if (layer.fusion.leader >= 0) {
      text += ", in " + plan.layers[static_cast<size_t>(layer.fusion.leader)].name();
    }
    text += "\n";
  }
  return text;
}

// Writes a data set of one image.
void WriteImages(const std::string& path) {
  Datum image;
  image.set_channels(3);
  image.set_height(4);
  image.set_width(4);
  image.set_data(std::string(48, 'x'));
  LmdbWriter writer(path);
  writer.Put("0", image.SerializeAsString());
  writer.Close();
}

class PassPairs : public testing::TestWithParam<PassPair> {};

TEST_P(PassPairs, ChangeThePlanAsTheySay) {
  PassPair pair = GetParam();
  // No implementation that depends on the processor: the native ones, or those of GPUs.
  const bool gpu = pair.options.device.type == DeviceType::kCuda;
  const std::string base = gpu ? "none,+optimized_implementations" : "none";
  const test::TempDir temp;
  if (const size_t at = pair.net.find(kImages); at != std::string::npos) {
    pair.net.replace(at, std::string_view(kImages).size(), temp.File("images"));
    WriteImages(temp.File("images"));
  }
  Registry registry = test::TestRegistry();
  for (const auto& [type, implementation] : pair.implementations) {
    registry.AddImplementation(type, implementation);
  }
  const auto expect_plan = [&](const std::string& passes, const std::string& expected) {
    pair.options.passes = ParsePasses(passes);
    EXPECT_EQ(Describe(*test::PlanText(pair.net, pair.phase, pair.options, registry)), expected);
  };
  expect_plan(base, pair.before);
  expect_plan(base + ",+" + pair.pass, pair.after);
}

std::string BatchInput(int channels, int size) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 8 dim: ",
                channels, " dim: ", size, " dim: ", size, " } } }\n");
}

std::string PairConv(const std::string& name, const std::string& bottom,
                     const std::string& fields) {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { ", fields, " } }\n");
}

std::string PairLayer(const std::string& type, const std::string& name, const std::string& bottom) {
  return StrCat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' }\n");
}

std::vector<PassPair> PairsOnTheCpu() {
  return {PassPair{.pass = "fuse",
                   .net = BatchInput(8, 6) + PairConv("c", "x", "num_output: 8 kernel_size: 3") +
                          PairLayer("ReLU", "r", "c") + PairLayer("Sigmoid", "s", "r"),
                   .options = {.backward = false},
                   .before = "Input -> x\n"
                             "Convolution x -> c\n"
                             "ReLU c -> r\n"
                             "Sigmoid r -> s\n",
                   .after = "Input -> x\n"
                            "Convolution x -> c\n"
                            "ReLU c -> r, in c\n"
                            "Sigmoid r -> s\n"},
          PassPair{.pass = "move_strides",
                   .net = BatchInput(8, 6) + PairConv("c", "x", "num_output: 8 kernel_size: 3") +
                          PairLayer("Sigmoid", "s", "c") +
                          PairConv("d", "s", "num_output: 8 kernel_size: 1 stride: 2"),
                   .options = {.backward = false},
                   .before = "Input -> x\n"
                             "Convolution x -> c\n"
                             "Sigmoid c -> s\n"
                             "Convolution s -> d, stride 2\n",
                   .after = "Input -> x\n"
                            "Convolution x -> c, stride 2\n"
                            "Sigmoid c -> s\n"
                            "Convolution s -> d, stride 1\n"},
          PassPair{.pass = "share_memory",
                   .net = BatchInput(8, 6) + PairLayer("Sigmoid", "a", "x") +
                          PairLayer("TanH", "b", "x") +
                          "layer { name: 'j' type: 'Concat' bottom: 'a' bottom: 'b' top: 'j' "
                          "concat_param { axis: 0 } }\n" +
                          PairLayer("Sigmoid", "s", "j"),
                   .options = {.backward = false},
                   .before = "Input -> x\n"
                             "Split x -> x_x_0_split_0 x_x_0_split_1\n"
                             "Sigmoid x_x_0_split_0 -> a\n"
                             "TanH x_x_0_split_1 -> b\n"
                             "Concat a b -> j\n"
                             "Sigmoid j -> s\n",
                   .after = "Input -> x\n"
                            "Split x -> x_x_0_split_0 x_x_0_split_1\n"
                            "Sigmoid x_x_0_split_0 -> a\n"
                            "TanH x_x_0_split_1 -> b\n"
                            "Concat a b -> j, in place, nothing to copy\n"
                            "Sigmoid j -> s, in place\n"},
          PassPair{.pass = "optimized_implementations",
                   .net = BatchInput(8, 6) + PairLayer("Sigmoid", "s", "x"),
                   .before = "Input -> x\n"
                             "Sigmoid x -> s\n",
                   .after = "Input -> x\n"
                            "Sigmoid x -> s, by the stand-in\n",
                   .implementations = {{"Sigmoid", StandIn({.name = kStandIn})}}}};
}

std::vector<PassPair> PairsOnGpus() {
  return {
      PassPair{.pass = "fuse",
               .net = BatchInput(8, 6) + PairLayer("BatchNorm", "n", "x") +
                      PairLayer("Scale", "k", "n") + PairLayer("ReLU", "r", "k") +
                      PairLayer("Sigmoid", "s", "r"),
               .options = {.device = kGpu},
               .before = "Input -> x\n"
                         "BatchNorm x -> n\n"
                         "Scale n -> k\n"
                         "ReLU k -> r\n"
                         "Sigmoid r -> s\n",
               .after = "Input -> x\n"
                        "BatchNorm x -> n\n"
                        "Scale n -> k, in n\n"
                        "ReLU k -> r, in n\n"
                        "Sigmoid r -> s\n"},
      PassPair{.pass = "upload_bytes",
               .net = "layer { name: 'd' type: 'Data' top: 'data' data_param { source: 'IMAGES' "
                      "batch_size: 2 } transform_param { scale: 0.5 } }\n" +
                      PairLayer("Sigmoid", "s", "data"),
               .options = {.device = kGpu, .backward = false},
               .before = "Data -> data\n"
                         "Sigmoid data -> s\n",
               .after = "Data -> data_d_bytes [u8]\n"
                        "PixelsToFloat data_d_bytes [u8] -> data\n"
                        "Sigmoid data -> s\n"},
      PassPair{.pass = "memory_formats",
               .net = BatchInput(64, 32) + PairConv("c", "x", "num_output: 64 kernel_size: 3") +
                      PairConv("d", "c", "num_output: 64 kernel_size: 3"),
               .options = {.device = kGpu, .backward = false, .precision = BF16},
               .before = "Input -> x\n"
                         "Convolution x -> c\n"
                         "Convolution c -> d\n",
               .after = "Input -> x\n"
                        "Reorder x -> x [NHWC bf16]\n"
                        "Convolution x [NHWC bf16] -> c [NHWC bf16], by the stand-in\n"
                        "Convolution c [NHWC bf16] -> d [NHWC bf16], by the stand-in\n"
                        "Reorder d [NHWC bf16] -> d\n",
               .implementations = {{"Convolution", StandIn({.name = kStandIn,
                                                            .device = DeviceType::kCuda,
                                                            .input_format = kHalf,
                                                            .output_format = kHalf})}}}};
}

std::string PassOf(const testing::TestParamInfo<PassPair>& test) { return test.param.pass; }

INSTANTIATE_TEST_SUITE_P(OnTheCpu, PassPairs, testing::ValuesIn(PairsOnTheCpu()), PassOf);
INSTANTIATE_TEST_SUITE_P(OnGpus, PassPairs, testing::ValuesIn(PairsOnGpus()), PassOf);

TEST(PassPairsList, HasEachPass) {
  std::set<std::string> with;
  for (const PassPair& pair : PairsOnTheCpu()) with.insert(pair.pass);
  for (const PassPair& pair : PairsOnGpus()) with.insert(pair.pass);
  for (const NamedPass& pass : kNamedPasses) {
    EXPECT_TRUE(with.contains(std::string(pass.name))) << pass.name << " has no pair";
  }
}

}  // namespace
}  // namespace crema
