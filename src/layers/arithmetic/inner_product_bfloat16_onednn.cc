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
  explicit State(const OpDesc& query) : PackedProductState(ConfigOf(query)) {}
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  // Packing takes longer than a product of few rows.
  if (!args.weights_fixed) return layer.Forward(args);
  const float* bias = args.parameters.size() > 1 ? args.parameters[1].data<float>() : nullptr;
  static_cast<State*>(args.implementation_state)
      ->product.Forward(args.inputs[0].raw(), args.parameters[0].data<float>(), bias,
                        args.outputs[0].data<float>(), true, args.scratch);
}

}  // namespace

ImplementationPtr BFloat16InnerProductImplementation() {
  const auto scratch = [](const OpDesc& query) { return PackedProduct(ConfigOf(query)).Scratch(); };
  const auto state_bytes = [](const OpDesc& query) {
    return PackedProduct(ConfigOf(query)).PackedBytes();
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>({.name = "onednn bf16"},
                                                                 {.supports = Supports,
                                                                  .can_fuse = CanFuseRelu,
                                                                  .forward = Forward,
                                                                  .forward_scratch = scratch,
                                                                  .state_bytes = state_bytes,
                                                                  .info = InfoWithRelu});
}

}  // namespace crema
