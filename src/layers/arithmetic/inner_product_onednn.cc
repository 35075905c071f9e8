// Implementations of InnerProduct by oneDNN, for forward passes: with weights that are already
// packed it multiplies few rows several times as fast as Crema's products, which pack them in each
// pass. If it has to pack in each pass too, it is slower (bench/layers_bench).
#include <algorithm>
#include <memory>

#include "layers/activation/fused_activation.h"
#include "layers/arithmetic/inner_product.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "layers/blocked_input.h"

namespace crema {
namespace {

const InnerProduct& LayerOf(const Layer& layer) { return static_cast<const InnerProduct&>(layer); }

FusedActivation FusedActivationOf(const OpDesc& query) {
  return query.fused.empty() ? FusedActivation{} : ActivationOf(*query.fused.back());
}

PackedProductConfig ConfigOf(const OpDesc& query) {
  PackedProductConfig config = PackedProductConfigOf(query, DType::kF32);
  config.rows = std::max<int64_t>(1, config.rows);  // Forward does nothing without rows
  return config;
}

Support Supports(const OpDesc& query) {
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.backward) return Support::No("training would pack the changed weights in each pass");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  // Native implementations fuse ReLU only, and a session may get fewer rows than planned.
  if (FusedActivationOf(query).on()) return {};
  const int64_t rows = PackedProductConfigOf(query, DType::kF32).rows;
  if (rows == 0) return Support::No("there are no rows");
  if (rows == 1) return Support::No("one row takes as long without a second copy of the weights");
  return {};
}

struct State final : PackedProductState {
  explicit State(const OpDesc& query) : PackedProductState(ConfigOf(query)) {}
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  if (args.outputs[0].count() == 0) return;
  const float* bias = LayerOf(layer).has_bias() ? args.parameters[1].data<float>() : nullptr;
  static_cast<State*>(args.implementation_state)
      ->product.Forward(args.inputs[0].data<float>(), args.parameters[0].data<float>(), bias,
                        args.outputs[0].data<float>(), args.weights_fixed, args.scratch);
}

ImplementationPtr MakeImplementation() {
  const auto scratch = [](const OpDesc& query) { return PackedProduct(ConfigOf(query)).Scratch(); };
  const auto state_bytes = [](const OpDesc& query) {
    return PackedProduct(ConfigOf(query)).PackedBytes();
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>({.name = "onednn"},
                                                                 {.supports = Supports,
                                                                  .can_fuse = CanFuseActivation,
                                                                  .forward = Forward,
                                                                  .forward_scratch = scratch,
                                                                  .state_bytes = state_bytes,
                                                                  .info = InfoWithRelu});
}

}  // namespace

bool CanFuseActivation(const OpDesc& query) {
  if (CanFuseRelu(query)) return true;
  // oneDNN's clip turns NaN into a bound and so would hide invalid data.
  const FusedActivation activation = FusedActivationOf(query);
  return !query.backward && query.fused.size() == 1 && !ReluOf(query).on && activation.on() &&
         activation.kind != FusedActivation::Kind::kClip;
}

PackedProductConfig PackedProductConfigOf(const OpDesc& query, DType type) {
  const InnerProduct& layer = LayerOf(query.layer);
  const Shape& input = query.context.inputs[0].shape;
  const int axis = layer.Axis(input);
  return {.rows = input.count(0, axis),
          .channels = input.count(axis),
          .outputs = layer.outputs(),
          .transposed = layer.transposed(),
          .type = type,
          .bias = layer.has_bias(),
          .relu = ReluOf(query),
          .activation = FusedActivationOf(query),
          .threads = query.threads};
}

std::vector<ImplementationPtr> OneDnnInnerProductImplementations() {
  return {MakeImplementation(), OnBlockedInput(MakeImplementation(), "onednn, blocked input")};
}

}  // namespace crema
