#include "layers/blocked_input.h"

#include <memory>
#include <utility>

#include "math/blocked_copy.h"
#include "math/scratch.h"

namespace crema {
namespace {

Support SupportsBlockedInput(const OpDesc& query) {
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  const BlobSpec& input = query.context.inputs[0];
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (query.context.inputs.size() != 1) return Support::No("is for one bottom");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  return {};
}

bool IsTheSame(const Shape& x) { return x.count(2) == 1 && x[1] % ChannelBlock() == 0; }

size_t CopyBytes(const Shape& x) {
  return IsTheSame(x) ? 0 : ScratchBytes<float>(x.count()) + kScratchSlack;
}

// Takes a plain copy of `x` from scratch and advances `scratch`.
float* TakeCopy(const Shape& x, std::span<std::byte>* scratch) {
  float* copy = ScratchCutter(*scratch).Take<float>(x.count());
  *scratch = scratch->subspan(CopyBytes(x));
  return copy;
}

ConstTensorView PlainView(int threads, const ConstTensorView& blocked,
                          std::span<std::byte>* scratch) {
  const Shape& x = blocked.shape();
  if (blocked.raw() == nullptr || IsTheSame(x)) return blocked;
  float* copy = TakeCopy(x, scratch);
  BlockedToPlain(threads, x[0], x[1], x.count(2), blocked.data<float>(), copy);
  return {copy, x, DType::kF32};
}

// Runs `own` on plain copies. Its support checks and needs do not depend on the layout, so queries
// are passed on unchanged.
class BlockedInputImplementation final : public ImplementationAdapter {
 public:
  BlockedInputImplementation(ImplementationFacts facts, const ImplementationPtr& own)
      : ImplementationAdapter(std::move(facts), own, {SupportsBlockedInput}) {}

  Needs NeedsOf(const OpDesc& op) const override {
    Needs needs = own().NeedsOf(op);
    const size_t copy = CopyBytes(op.context.inputs[0].shape);
    needs.forward_scratch += copy;
    if (op.backward) needs.backward_scratch += 2 * copy;
    return needs;
  }
  void Forward(const Layer& layer, const ForwardArgs& args) const override {
    ForwardArgs plain = args;
    const ConstTensorView input = PlainView(args.context.threads(), args.inputs[0], &plain.scratch);
    plain.inputs = {&input, 1};
    own().Forward(layer, plain);
  }
  void Backward(const Layer& layer, const BackwardArgs& args) const override {
    BackwardArgs plain = args;
    const int threads = args.context.threads();
    const Shape x = args.inputs[0].shape();
    const ConstTensorView input = PlainView(threads, args.inputs[0], &plain.scratch);
    plain.inputs = {&input, 1};
    TensorView gradient = args.input_grads[0];
    const bool copies = !gradient.empty() && !IsTheSame(x);
    if (copies) gradient = {TakeCopy(x, &plain.scratch), x, DType::kF32};
    plain.input_grads = {&gradient, 1};
    own().Backward(layer, plain);
    if (!copies) return;
    PlainToBlocked(threads, x[0], x[1], x.count(2), gradient.data<float>(),
                   args.input_grads[0].data<float>());
  }
};

}  // namespace

ImplementationPtr OnBlockedInput(const ImplementationPtr& implementation, std::string name) {
  ImplementationFacts facts = *implementation;
  facts.name = std::move(name);
  facts.input_format = {Layout::kBlocked};
  return std::make_shared<BlockedInputImplementation>(std::move(facts), implementation);
}

}  // namespace crema
