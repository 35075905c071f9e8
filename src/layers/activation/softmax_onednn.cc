// Row "onednn" of Softmax: forward in 0.8 of the time of our own (bench/results/kernels.md), where
// there are rows enough. Backward, which takes the same time in both, is our own.
#include <memory>

#include "layers/activation/softmax_rows.h"
#include "math/softmax_primitive.h"

namespace crema {
namespace {

constexpr int64_t kFewest = 4096;  // elements that are worth a call

SoftmaxExtent ExtentOf(const KernelQuery& query) {
  return SoftmaxExtentOf(query.layer, query.context.inputs[0].shape);
}

SoftmaxPrimitive PrimitiveOf(const KernelQuery& query) {
  const SoftmaxExtent extent = ExtentOf(query);
  return {extent.outer, extent.classes, query.threads};
}

Support Supports(const KernelQuery& query) {
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const SoftmaxExtent extent = ExtentOf(query);
  if (extent.inner != 1) {
    return Support::No("oneDNN has its slow reference only where classes are apart");
  }
  if (extent.outer == 1 || extent.outer * extent.classes < kFewest) {
    return Support::No("so few scores take our own code no longer");
  }
  try {
    if (!PrimitiveOf(query).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only on this processor");
}

struct State final : KernelState {
  explicit State(const KernelQuery& query) : primitive(PrimitiveOf(query)) { primitive.Prepare(); }
  SoftmaxPrimitive primitive;
};

void Forward(const Layer&, const ForwardArgs& args) {
  static_cast<State*>(args.kernel_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(),
                          args.scratch);
}

}  // namespace

Kernel OneDnnSoftmaxKernel() {
  Kernel row;
  row.name = "onednn";
  row.supports = Supports;
  row.forward = Forward;
  row.forward_scratch = [](const KernelQuery& query) { return PrimitiveOf(query).Scratch(); };
  row.make_state = [](const KernelQuery& query) -> std::unique_ptr<KernelState> {
    return std::make_unique<State>(query);
  };
  return row;
}

}  // namespace crema
