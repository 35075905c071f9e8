// Runs one layer without inputs, without a net around it.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/exec_context.h"
#include "core/rng.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema::testing {

class LayerRunner {
 public:
  LayerRunner(const Registry& registry, const std::string& prototxt, Phase phase = TRAIN,
              DType dtype = DType::kF32, uint64_t seed = 1)
      : phase_(phase), context_(1, seed) {
    LayerParameter param;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(prototxt, &param)) << prototxt;
    layer_ = registry.Find(param.type())->make(param);
    const InferContext infer{.phase = phase,
                             .inputs = {},
                             .output_count = static_cast<size_t>(param.top_size()),
                             .dtype = dtype};
    for (const BlobSpec& spec : layer_->Infer(infer).outputs) {
      outputs.emplace_back(spec.shape, spec.dtype);
    }
    state_ = layer_->MakeState(context_, phase);
  }

  void Forward() {
    std::vector<TensorView> views;
    shapes.clear();
    for (const Tensor& output : outputs) shapes.push_back(output.shape());
    for (Tensor& output : outputs) views.push_back(output.view());
    layer_->Forward({.context = context_,
                     .phase = phase_,
                     .layer_id = HashName(layer_->param().name()),
                     .inputs = {},
                     .outputs = views,
                     .parameters = {},
                     .saved = {},
                     .scratch = {},
                     .state = state_.get(),
                     .output_shapes = shapes});
  }

  // Returns output `i` of the next `batches` forward passes, concatenated.
  template <typename T = float>
  std::vector<T> Collect(size_t i, int batches) {
    std::vector<T> values;
    for (int n = 0; n < batches; ++n) {
      Forward();
      const auto span = outputs[i].view().span<T>();
      values.insert(values.end(), span.begin(), span.end());
    }
    return values;
  }

  LayerSessionState& state() { return *state_; }

  std::vector<Tensor> outputs;
  std::vector<Shape> shapes;  // of the outputs, after the last Forward

 private:
  const Phase phase_;
  ExecContext context_;
  std::unique_ptr<const Layer> layer_;
  std::unique_ptr<LayerSessionState> state_;
};

}  // namespace crema::testing
