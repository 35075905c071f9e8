// Requests that are declared independent are independent.
#include "inference/sample_axis.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "support/layer_case.h"
#include "support/serving_nets.h"

namespace crema {
namespace {

using test::Drawn;
using test::ValuesOf;

bool Works(const std::string& text) {
  const NetFile net = ParseNet(text, "net.prototxt");
  NetState state;
  state.set_phase(TEST);
  return WorksBySample(net, state, test::TestRegistry());
}

std::string WithInput(const std::string& shape, const std::string& layers) {
  return StrCat("layer { name: 'x' type: 'Input' top: 'x' input_param { shape { ", shape,
                " } } }\n", layers);
}

TEST(SampleAxis, MixingLayersAreSeen) {
  const std::string four = "dim: 1 dim: 4 dim: 6 dim: 6";
  const std::map<std::string, bool> layers = {
      {"type: 'ReLU'", true},
      {"type: 'SiLU'", true},
      {"type: 'HSwish'", true},
      {"type: 'DepthwiseConvolution' convolution_param { num_output: 4 kernel_size: 1 }", true},
      {"type: 'Softmax'", true},
      {"type: 'Softmax' softmax_param { axis: 0 }", false},
      {"type: 'Softmax' softmax_param { axis: -4 }", false},
      {"type: 'BatchNorm'", true},
      {"type: 'BatchNorm' batch_norm_param { use_global_stats: false }", false},
      {"type: 'BatchNorm' phase: TRAIN", false},
      {"type: 'BatchNorm' phase: TRAIN batch_norm_param { use_global_stats: true }", true},
      {"type: 'BN' phase: TRAIN bn_param { bn_mode: INFERENCE }", true},
      {"type: 'Dropout'", true},
      {"type: 'Dropout' phase: TRAIN", false},
      {"type: 'BN' bn_param { bn_mode: LEARN }", false},
      {"type: 'BN' bn_param { bn_mode: INFERENCE }", true},
      {"type: 'Flatten'", true},
      {"type: 'Flatten' flatten_param { axis: 0 }", false},
      {"type: 'Reshape' reshape_param { shape { dim: 0 dim: -1 } }", true},
      {"type: 'Reshape' reshape_param { shape { dim: -1 dim: 6 } }", false},
      {"type: 'Reshape' reshape_param { shape { dim: 1 dim: -1 dim: 6 dim: 6 } }", false},
      {"type: 'Permute' permute_param { order: 0 order: 2 order: 3 order: 1 }", true},
      {"type: 'Permute' permute_param { order: 1 order: 0 }", false},
      {"type: 'Transpose' transpose_param { dim: 1 dim: 0 dim: 2 dim: 3 }", false},
      {"type: 'Reduction'", false},
      {"type: 'Reduction' reduction_param { axis: 1 }", true},
      {"type: 'Tile' tile_param { axis: 0 tiles: 2 }", false},
      {"type: 'InnerProduct' inner_product_param { num_output: 3 }", true},
      {"type: 'InnerProduct' inner_product_param { num_output: 3 axis: 0 }", false},
      {"type: 'Scale' scale_param { axis: 0 num_axes: 1 }", false},
      {"type: 'ArgMax'", true},
      {"type: 'ArgMax' argmax_param { axis: 0 }", false},
  };
  for (const auto& [layer, expected] : layers) {
    const std::string text =
        WithInput(four, StrCat("layer { name: 'l' bottom: 'x' top: 'y' ", layer, " }\n"));
    EXPECT_EQ(Works(text), expected) << layer;
  }
}

TEST(SampleAxis, EveryOutputMustFollow) {
  EXPECT_FALSE(Works(WithInput("dim: 2 dim: 3", R"(
layer { name: "a" type: "ReLU" bottom: "x" top: "a" }
layer { name: "b" type: "Reduction" bottom: "x" top: "b" })")));
  EXPECT_FALSE(Works(WithInput("dim: 2 dim: 3", R"(
layer { name: "p" type: "Parameter" top: "p" parameter_param { shape { dim: 2 } } }
layer { name: "a" type: "ReLU" bottom: "x" top: "a" })")));
  EXPECT_FALSE(Works(WithInput("", "layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'a' }")));
  EXPECT_FALSE(Works("layer { name: 'a' type: 'ReLU' bottom: 'x' top: 'a' }"));  // no such blob
}

// A second bottom of Scale is shared by all samples, or has an entry for each.
TEST(SampleAxis, InputsMayBeSharedByAllSamples) {
  const auto scaled = [](const std::string& other, int axis) {
    return Works(WithInput("dim: 2 dim: 4", StrCat(other, R"(
layer { name: "s" type: "Scale" bottom: "x" bottom: "other" top: "s" scale_param { axis: )",
                                                   axis, " } }")));
  };
  const std::string constant =
      "layer { name: 'p' type: 'Parameter' top: 'other' parameter_param { shape { dim: 4 } } }";
  const std::string of_samples =
      "layer { name: 'r' type: 'Reduction' bottom: 'x' top: 'other' reduction_param { axis: 1 } }";
  EXPECT_TRUE(scaled(constant, 1));
  EXPECT_TRUE(scaled(of_samples, 0));
  EXPECT_FALSE(scaled(of_samples, 1));  // fits no batch but 4
}

TEST(SampleAxis, OfModelsOfTheRepository) {
  const std::map<std::string, bool> models = {
      {"lenet", true},       {"alexnet", true}, {"googlenet", true},  {"resnet50", true},
      {"fcn8s", true},       {"siamese", true}, {"squeezenet", true}, {"mobilenet_v2", true},
      {"autoencoder", true}, {"ssd300", false}, {"char_rnn", false},  {"lrcn", false},
  };
  for (const auto& [model, expected] : models) {
    const NetFile net = ReadNet(StrCat(CREMA_SOURCE_DIR, "/models/", model, "/deploy.prototxt"));
    NetState state;
    state.set_phase(TEST);
    EXPECT_EQ(WorksBySample(net, state, test::TestRegistry()), expected) << model;
  }
}

// A layer sample as a net, for batches of three.
std::string NetOf(const LayerType& type, const LayerSample& sample) {
  std::string text;
  std::string layer = StrCat("layer { name: 'l' type: '", type.name, "' ");
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    text +=
        StrCat("layer { name: 'in", i, "' type: 'Input' top: 'in", i, "' input_param { shape {");
    for (const int64_t dim : sample.inputs[i].shape) text += StrCat(" dim: ", dim);
    text += " } } }\n";
    layer += StrCat("bottom: 'in", i, "' ");
  }
  for (int o = 0; o < sample.outputs; ++o) layer += StrCat("top: 'out", o, "' ");
  return StrCat(text, layer, sample.prototxt, " }\n");
}

Tensor DrawnFor(const SampleInput& input, int64_t batch, uint64_t seed) {
  std::vector<int64_t> dims = input.shape;
  dims[0] = batch;
  Tensor tensor = Drawn(Shape(std::span<const int64_t>(dims)), seed);
  for (float& value : tensor.view().span<float>()) {
    const double at = input.low + (input.high - input.low) * (value + 1) / 2;
    value = static_cast<float>(input.integer ? std::floor(at + 0.5) : at);
  }
  return tensor;
}

// Returns the first sample of every output; the rest of the batch is drawn from `mates`.
std::vector<std::vector<float>> FirstAnswers(const Model& model, ModelRunner* runner,
                                             const LayerSample& sample, uint64_t mates) {
  std::vector<Tensor> tensors;
  std::vector<NamedTensor> inputs;
  for (size_t i = 0; i < sample.inputs.size(); ++i) {
    tensors.push_back(DrawnFor(sample.inputs[i], 3, mates + i));
    const Tensor first = DrawnFor(sample.inputs[i], 1, 1000 + i);
    std::ranges::copy(first.view().span<float>(), tensors.back().view().span<float>().begin());
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    inputs.push_back({model.inputs()[i].name, std::as_const(tensors[i]).view()});
  }
  runner->Run(inputs);
  std::vector<std::vector<float>> answers;
  for (const BlobInfo& output : model.outputs()) {
    const std::vector<float> values = ValuesOf(runner->Output(output.name));
    EXPECT_EQ(values.size() % 3, 0U);
    answers.emplace_back(values.begin(), values.begin() + static_cast<long>(values.size() / 3));
  }
  return answers;
}

TEST(SampleAxis, IsYesForEveryLayerThatKeepsSamplesApart) {
  int claimed = 0;
  for (const std::string& name : test::TestRegistry().Names()) {
    const LayerType& type = *test::TestRegistry().Find(name);
    for (LayerSample sample : type.samples) {
      if (sample.inputs.empty() || sample.inputs[0].shape.empty() || sample.outputs == 0) continue;
      sample.phase = TEST;
      for (SampleInput& input : sample.inputs) {
        if (!input.shape.empty()) input.shape[0] = 3;
      }
      std::string text;
      try {
        const test::LayerCase layer_case(type, sample, DType::kF32);
        const LayerInfo& info = layer_case.info();
        const bool shares = std::ranges::find(info.shared_inputs, true) != info.shared_inputs.end();
        const bool of_floats =
            InputTypeOf(layer_case.layer(), 0, DType::kF32, DType::kF32) == DType::kF32;
        if (info.reach == Reach::kAll || shares || !of_floats) continue;
        text = NetOf(type, sample);
      } catch (const Error&) {
        continue;  // takes other batches
      }
      EXPECT_TRUE(Works(text)) << name << ", " << sample.name;
      ++claimed;
    }
  }
  EXPECT_GE(claimed, 200);
}

// Tests every sample of every layer type declared independent with other batch mates.
TEST(SampleAxis, IsRightAboutEveryLayer) {
  std::set<std::string> reached;
  for (const std::string& name : test::TestRegistry().Names()) {
    const LayerType& type = *test::TestRegistry().Find(name);
    for (const LayerSample& sample : type.samples) {
      const std::string text = NetOf(type, sample);
      const auto is_empty = [](const SampleInput& input) {
        return std::ranges::find(input.shape, 0) != input.shape.end();
      };
      if (sample.inputs.empty() || std::ranges::any_of(sample.inputs, is_empty) || !Works(text)) {
        continue;
      }
      SCOPED_TRACE(StrCat(name, ", ", sample.name));
      const auto model = test::ModelOf(text);
      ModelRunner runner(model);
      EXPECT_EQ(FirstAnswers(*model, &runner, sample, 1), FirstAnswers(*model, &runner, sample, 2));
      reached.insert(name);
    }
  }
  for (const char* type : {"Convolution", "Pooling", "LRN", "InnerProduct", "Scale", "BatchNorm",
                           "Attention", "MatMul", "Eltwise", "Concat", "MVN", "Embed"}) {
    EXPECT_TRUE(reached.contains(type)) << type;
  }
  EXPECT_GE(reached.size(), 50U);
}

}  // namespace
}  // namespace crema
