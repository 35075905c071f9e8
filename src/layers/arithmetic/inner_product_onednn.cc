// Rows of InnerProduct by oneDNN, for forward passes: with weights that were packed before it
// multiplies few rows several times as fast as our own products, which pack them in each pass.
// Where it has to do so too it is slower (bench/layers_bench).
#include <memory>

#include "graph/shares_weights.h"
#include "layers/arithmetic/inner_product.h"
#include "layers/blocked_input.h"
#include "math/packed_product.h"

namespace crema {
namespace {

const InnerProduct& LayerOf(const Layer& layer) { return static_cast<const InnerProduct&>(layer); }

PackedProductConfig ConfigOf(const KernelQuery& query) {
  const InnerProduct& layer = LayerOf(query.layer);
  const Shape& input = query.context.inputs[0].shape;
  const int axis = layer.Axis(input);
  return {.rows = input.count(0, axis),
          .outputs = layer.outputs(),
          .inputs = input.count(axis),
          .transposed = layer.transposed(),
          .bias = layer.has_bias(),
          .relu = layer.relu(),
          .threads = query.threads};
}

Support Supports(const KernelQuery& query) {
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (query.deterministic) return Support::No("its bits depend on the number of threads");
  if (query.backward) return Support::No("training would pack the changed weights in each pass");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const int64_t rows = ConfigOf(query).rows;
  if (rows == 0) return Support::No("there are no rows");
  if (rows == 1) return Support::No("one row takes as long without a second copy of the weights");
  return {};
}

struct State final : KernelState, SharesWeights {
  explicit State(const KernelQuery& query) : product(ConfigOf(query)) {}
  SharedKeptWeights Kept() const override { return product.Kept(); }
  bool TakeKept(const SharedKeptWeights& kept) override { return product.TakeKept(kept); }

  PackedProduct product;
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  const float* bias = LayerOf(layer).has_bias() ? args.learned[1].data<float>() : nullptr;
  static_cast<State*>(args.kernel_state)
      ->product.Forward(args.inputs[0].data<float>(), args.learned[0].data<float>(), bias,
                        args.outputs[0].data<float>(), args.weights_fixed, args.scratch);
}

Kernel Row() {
  Kernel row;
  row.name = "onednn";
  row.supports = Supports;
  row.forward = Forward;
  row.forward_scratch = [](const KernelQuery& query) {
    return PackedProduct(ConfigOf(query)).Scratch();
  };
  row.state_bytes = [](const KernelQuery& query) {
    return PackedProduct(ConfigOf(query)).KeptBytes();
  };
  row.make_state = [](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    return std::make_unique<State>(query);
  };
  return row;
}

}  // namespace

std::vector<Kernel> OneDnnInnerProductKernels() {
  return {Row(), OnBlockedInput(Row(), "onednn, blocked input")};
}

}  // namespace crema
