// Each pass on a net that it changes: the plan without the pass and the plan with it.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "plan/plan_passes.h"
#include "support/net.h"

namespace crema {
namespace {

struct PassPair {
  std::string pass;  // as in --passes
  std::string net;
  Phase phase = TEST;
  PlanOptions options;
  std::string before;
  std::string after;
};

void PrintTo(const PassPair& pair, std::ostream* out) { *out << pair.pass; }

std::string Names(const Plan& plan, const std::vector<int>& values) {
  std::string text;
  for (const int value : values) {
    text += " " + plan.values[static_cast<size_t>(value)].name;
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
    if (layer.in_place) text += ", in place";
    if (layer.concat_in_place != ConcatPlace::kNone) text += ", nothing to copy";
    if (layer.fusion.leader >= 0) {
      text += ", in " + plan.layers[static_cast<size_t>(layer.fusion.leader)].name();
    }
    text += "\n";
  }
  return text;
}

class PassPairs : public testing::TestWithParam<PassPair> {};

TEST_P(PassPairs, ChangeThePlanAsTheySay) {
  PassPair pair = GetParam();
  // No implementation that depends on the processor: the native ones, or those of GPUs.
  const bool gpu = pair.options.device.type == DeviceType::kCuda;
  const std::string base = gpu ? "none,+optimized_implementations" : "none";
  pair.options.passes = ParsePasses(base);
  EXPECT_EQ(Describe(*test::PlanText(pair.net, pair.phase, pair.options)), pair.before);
  pair.options.passes = ParsePasses(base + ",+" + pair.pass);
  EXPECT_EQ(Describe(*test::PlanText(pair.net, pair.phase, pair.options)), pair.after);
}

std::string Input(int channels, int size) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { dim: 8 dim: ",
                channels, " dim: ", size, " dim: ", size, " } } }\n");
}

std::string Conv(const std::string& name, const std::string& bottom, const std::string& fields) {
  return StrCat("layer { name: '", name, "' type: 'Convolution' bottom: '", bottom, "' top: '",
                name, "' convolution_param { ", fields, " } }\n");
}

std::string Layer(const std::string& type, const std::string& name, const std::string& bottom) {
  return StrCat("layer { name: '", name, "' type: '", type, "' bottom: '", bottom, "' top: '", name,
                "' }\n");
}

INSTANTIATE_TEST_SUITE_P(
    OfThePlan, PassPairs,
    testing::Values(
        PassPair{.pass = "fuse",
                 .net = Input(8, 6) + Conv("c", "x", "num_output: 8 kernel_size: 3") +
                        Layer("ReLU", "r", "c") + Layer("Sigmoid", "s", "r"),
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
                 .net = Input(8, 6) + Conv("c", "x", "num_output: 8 kernel_size: 3") +
                        Layer("Sigmoid", "s", "c") +
                        Conv("d", "s", "num_output: 8 kernel_size: 1 stride: 2"),
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
                 .net = Input(8, 6) + Layer("Sigmoid", "a", "x") + Layer("TanH", "b", "x") +
                        "layer { name: 'j' type: 'Concat' bottom: 'a' bottom: 'b' top: 'j' "
                        "concat_param { axis: 0 } }\n" +
                        Layer("Sigmoid", "s", "j"),
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
        PassPair{.pass = "fuse",
                 .net = Input(8, 6) + Layer("BatchNorm", "n", "x") + Layer("Scale", "k", "n") +
                        Layer("ReLU", "r", "k") + Layer("Sigmoid", "s", "r"),
                 .options = {.device = {DeviceType::kCuda, 0}},
                 .before = "Input -> x\n"
                           "BatchNorm x -> n\n"
                           "Scale n -> k\n"
                           "ReLU k -> r\n"
                           "Sigmoid r -> s\n",
                 .after = "Input -> x\n"
                          "BatchNorm x -> n\n"
                          "Scale n -> k, in n\n"
                          "ReLU k -> r, in n\n"
                          "Sigmoid r -> s\n"}),
    [](const auto& test) {
      const bool gpu = test.param.options.device.type == DeviceType::kCuda;
      return test.param.pass + (gpu ? "_on_a_gpu" : "");
    });

}  // namespace
}  // namespace crema
