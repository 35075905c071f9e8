// Models from text with drawn weights, and what they answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "inference/model.h"
#include "support/net.h"

namespace crema::test {

// Convolutions, a Concat and a classifier: fused, blocked and concatenated in place if possible.
inline const char* const kSmallNet = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 12 dim: 12 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "a" type: "Convolution" bottom: "conv1" top: "a"
  convolution_param { num_output: 16 kernel_size: 1 weight_filler { type: "xavier" } } }
layer { name: "b" type: "Convolution" bottom: "conv1" top: "b"
  convolution_param { num_output: 16 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "cat" type: "Concat" bottom: "a" bottom: "b" top: "cat" }
layer { name: "pool" type: "Pooling" bottom: "cat" top: "pool"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "ip" type: "InnerProduct" bottom: "pool" top: "ip"
  inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }
layer { name: "prob" type: "Softmax" bottom: "ip" top: "prob" }
)";

// Weights are those of the fillers.
inline std::shared_ptr<const Model> ModelOf(const std::string& text,
                                            const ModelOptions& options = {}) {
  return Model::Make(ParseNet(text, "net.prototxt"), {}, {}, options, TestRegistry(), NullSink());
}

inline Tensor Drawn(const Shape& shape, uint64_t seed, float scale = 1) {
  const RandomStream stream(seed, 1);
  Tensor tensor(shape, DType::kF32);
  const std::span<float> values = tensor.view().span<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = scale * static_cast<float>(2 * stream.Uniform(i) - 1);
  }
  return tensor;
}

inline std::vector<float> Answer(ModelRunner* runner, const Tensor& input,
                                 const std::string& in = "data", const std::string& out = "prob") {
  const NamedTensor given{in, input.view()};
  runner->Run({&given, 1});
  return ValuesOf(runner->Output(out));
}

}  // namespace crema::test
