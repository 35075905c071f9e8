#include <memory>
#include <string>

#include "core/strings.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "layers/fused_relu.h"
#include "plan/precision.h"

namespace crema {
namespace {

constexpr int64_t kFewestWeights = 1 << 16;  // that pay for rounding inputs

PackedProductConfig ConfigOf(const OpDesc& query) {
  return PackedProductConfigOf(query, DType::kBF16);
}

Support Supports(const OpDesc& query) {
  const Support stores = StoresBFloat16(query);
  if (!stores.yes) return stores;
  if (query.backward) return Support::No("is for forward passes without backward");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const PackedProductConfig config = ConfigOf(query);
  if (config.rows == 0) return Support::No("is for one row or more");
  if (config.Inputs() * config.outputs < kFewestWeights) {
    return Support::No(StrCat("is for ", kFewestWeights, " weights or more"));
  }
  try {
    const PackedProduct product(config);
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

struct State final : PackedProductState {
  explicit State(const OpDesc& query)
      : PackedProductState(ConfigOf(query)), has_activation(ConfigOf(query).activation.on()) {}

  const bool has_activation;  // which the methods of the layer lack
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  auto& state = *static_cast<State*>(args.implementation_state);
  // Packing takes longer than a product of few rows.
  if (!args.weights_fixed && !state.has_activation) return layer.Forward(args);
  const float* bias = args.parameters.size() > 1 ? args.parameters[1].data<float>() : nullptr;
  state.product.Forward(args.inputs[0].raw(), args.parameters[0].data<float>(), bias,
                        args.outputs[0].data<float>(), args.weights_fixed, args.scratch);
}

}  // namespace

ImplementationPtr BFloat16InnerProductImplementation() {
  const auto scratch = [](const OpDesc& query) { return PackedProduct(ConfigOf(query)).Scratch(); };
  const auto state_bytes = [](const OpDesc& query) {
    return PackedProduct(ConfigOf(query)).PackedBytes();
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>({.name = "onednn bf16"},
                                                                 {.supports = Supports,
                                                                  .can_fuse = CanFuseActivation,
                                                                  .forward = Forward,
                                                                  .forward_scratch = scratch,
                                                                  .state_bytes = state_bytes,
                                                                  .info = InfoWithRelu});
}

}  // namespace crema
