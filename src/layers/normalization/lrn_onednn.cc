// Row "onednn" of LRN on blocked blobs: forward by oneDNN, which takes 0.8 of the time of our own.
// Backward is our own: that of oneDNN is faster by more, but forward would have to save twice the
// size of x for it, and takes longer then (bench/results/kernels.md).
#include <utility>

#include "layers/normalization/lrn_rows.h"
#include "math/lrn_primitive.h"

namespace crema {
namespace {

LrnPrimitive PrimitiveOf(const KernelQuery& query) {
  const LRNParameter& p = query.layer.param().lrn_param();
  const Shape& shape = query.context.inputs[0].shape;
  return {shape[0],
          {shape[1], shape[2], shape[3]},
          {.size = p.local_size(), .alpha = p.alpha(), .beta = p.beta(), .k = p.k()},
          query.threads};
}

Support SupportsPrimitive(const KernelQuery& query) {
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  if (query.context.inputs[0].shape.count() == 0) return Support::No("there is nothing to do");
  try {
    if (!PrimitiveOf(query).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only for this local_size or beta");
}

struct State final : KernelState {
  explicit State(const KernelQuery& query) : primitive(PrimitiveOf(query)) { primitive.Prepare(); }
  LrnPrimitive primitive;
};

void Forward(const Layer&, const ForwardArgs& args) {
  static_cast<State*>(args.kernel_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(),
                          args.scratch);
}

}  // namespace

Kernel OneDnnLrnKernel(Kernel blocked) {
  Kernel row = std::move(blocked);
  row.name = "onednn";
  row.supports = [own = row.supports](const KernelQuery& query) {
    const Support support = own(query);
    return support.yes ? SupportsPrimitive(query) : support;
  };
  row.forward = Forward;
  row.forward_scratch = [](const KernelQuery& query) { return PrimitiveOf(query).Scratch(); };
  row.make_state = [](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    return std::make_unique<State>(query);
  };
  return row;
}

}  // namespace crema
