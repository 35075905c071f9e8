// Implementation "onednn" of Softmax: forward takes 0.6 to 0.9 of the time of our kernel
// (bench/results/kernels.md) if there are enough rows, each of enough classes. Backward uses our
// kernel, since both take the same time.
#include <memory>

#include "layers/activation/softmax_implementations.h"
#include "math/softmax_primitive.h"

namespace crema {
namespace {

constexpr int64_t kFewest = 4096;  // minimum elements worth a call

SoftmaxSize SizesOf(const OpDesc& query) {
  return SoftmaxSizeOf(query.layer, query.context.inputs[0].shape);
}

SoftmaxPrimitive PrimitiveOf(const OpDesc& query) {
  const SoftmaxSize sizes = SizesOf(query);
  return {sizes.outer, sizes.classes, query.threads};
}

Support Supports(const OpDesc& query) {
  if (query.deterministic) return Support::No("its bits may depend on the number of threads");
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  const SoftmaxSize sizes = SizesOf(query);
  if (sizes.inner != 1) {
    return Support::No("oneDNN has its slow reference only where classes are apart");
  }
  if (sizes.classes <= kShortSoftmaxRow) {
    return Support::No("so few classes take our own code less time");
  }
  if (sizes.outer == 1 || sizes.outer * sizes.classes < kFewest) {
    return Support::No("so few scores take our own code no longer");
  }
  try {
    if (!PrimitiveOf(query).IsReference()) return {};
  } catch (const Error& error) {
    return Support::No(error.what());
  }
  return Support::No("oneDNN has its slow reference only on this processor");
}

struct State final : ImplementationState {
  explicit State(const OpDesc& query) : primitive(PrimitiveOf(query)) { primitive.Prepare(); }
  SoftmaxPrimitive primitive;
};

void Forward(const Layer&, const ForwardArgs& args) {
  static_cast<State*>(args.implementation_state)
      ->primitive.Forward(args.inputs[0].data<float>(), args.outputs[0].data<float>(),
                          args.scratch);
}

}  // namespace

ImplementationPtr OneDnnSoftmaxImplementation() {
  const auto scratch = [](const OpDesc& query) { return PrimitiveOf(query).Scratch(); };
  return MakeSimpleImplementation<StatefulImplementation<State>>(
      {.name = "onednn"}, {.supports = Supports, .forward = Forward, .forward_scratch = scratch});
}

}  // namespace crema
