#include <memory>
#include <string>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/has_packed_weights.h"
#include "layers/arithmetic/inner_product_implementations.h"
#include "math/bfloat16_product.h"
#include "plan/precision.h"

namespace crema {
namespace {

constexpr int64_t kFewestWeights = 1 << 16;  // that pay for rounding inputs

BFloat16ProductConfig ConfigOf(const OpDesc& query) {
  const LayerParameter& param = query.layer.param();
  const InnerProductParameter& ip = param.inner_product_param();
  const int64_t outputs = ip.num_output();
  const int64_t inputs = query.info.learned[0].shape.count() / outputs;
  return {
      .rows = query.context.inputs[0].shape.count() / inputs,
      .inputs = inputs,
      .outputs = outputs,
      .transposed = ip.transpose(),
      .bias = ip.bias_term(),
      .relu = {param.has_fused_relu_param(), param.fused_relu_param().negative_slope()},
      .threads = query.threads,
  };
}

Support Supports(const OpDesc& query) {
  const Support stores = StoresBFloat16(query);
  if (!stores.yes) return stores;
  if (query.backward) return Support::No("is for forward passes without backward");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const BFloat16ProductConfig config = ConfigOf(query);
  if (config.rows == 0) return Support::No("is for one row or more");
  if (config.inputs * config.outputs < kFewestWeights) {
    return Support::No(StrCat("is for ", kFewestWeights, " weights or more"));
  }
  try {
    const BFloat16Product product(config);
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return {};
}

struct State final : ImplementationState, HasPackedWeights {
  explicit State(const OpDesc& query) : product(ConfigOf(query)) {}
  SharedPackedWeights ExportPacked() const override { return product.ExportPacked(); }
  bool ImportPacked(const SharedPackedWeights& shared) override {
    return product.ImportPacked(shared);
  }

  BFloat16Product product;
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  BFloat16Product& product = static_cast<State*>(args.implementation_state)->product;
  // Packing takes longer than a product of few rows.
  if (!args.weights_fixed) return layer.Forward(args);
  if (!product.HasWeights()) product.SetWeights(args.learned[0].data<float>());
  const float* bias = args.learned.size() > 1 ? args.learned[1].data<float>() : nullptr;
  product.Run(args.inputs[0].data<float>(), bias, args.outputs[0].data<float>(), args.scratch);
}

}  // namespace

ImplementationPtr BFloat16InnerProductImplementation() {
  const auto scratch = [](const OpDesc& query) {
    return BFloat16Product(ConfigOf(query)).Scratch();
  };
  const auto state_bytes = [](const OpDesc& query) {
    return BFloat16Product(ConfigOf(query)).PackedBytes();
  };
  return MakeSimpleImplementation<StatefulImplementation<State>>({.name = "onednn bf16"},
                                                                 {.supports = Supports,
                                                                  .forward = Forward,
                                                                  .forward_scratch = scratch,
                                                                  .state_bytes = state_bytes});
}

}  // namespace crema
