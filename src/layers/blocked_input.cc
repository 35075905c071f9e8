#include "layers/blocked_input.h"

#include <array>
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

// What an implementation may ask of a query is the same for both formats.
size_t ScratchWith(size_t own, const Shape& x, int copies) {
  return own + static_cast<size_t>(copies) * CopyBytes(x);
}

// Cuts a plain copy of `x` off scratch.
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

void Forward(const Implementation& implementation, const Layer& layer, const ForwardArgs& args) {
  ForwardArgs plain = args;
  const ConstTensorView input = PlainView(args.context.threads(), args.inputs[0], &plain.scratch);
  plain.inputs = {&input, 1};
  implementation.forward ? implementation.forward(layer, plain) : layer.Forward(plain);
}

void Backward(const Implementation& implementation, const Layer& layer, const BackwardArgs& args) {
  BackwardArgs plain = args;
  const int threads = args.context.threads();
  const Shape x = args.inputs[0].shape();
  const ConstTensorView input = PlainView(threads, args.inputs[0], &plain.scratch);
  plain.inputs = {&input, 1};
  TensorView gradient = args.input_grads[0];
  const bool copies = !gradient.empty() && !IsTheSame(x);
  if (copies) gradient = {TakeCopy(x, &plain.scratch), x, DType::kF32};
  plain.input_grads = {&gradient, 1};
  implementation.backward ? implementation.backward(layer, plain) : layer.Backward(plain);
  if (!copies) return;
  PlainToBlocked(threads, x[0], x[1], x.count(2), gradient.data<float>(),
                 args.input_grads[0].data<float>());
}

}  // namespace

Implementation OnBlockedInput(Implementation implementation, std::string name) {
  Implementation blocked = implementation;
  blocked.name = std::move(name);
  blocked.input_format = MemoryFormat::kBlocked;
  blocked.supports = [supports = implementation.supports](const OpDesc& query) {
    const Support support = SupportsBlockedInput(query);
    return support.yes && supports ? supports(query) : support;
  };
  blocked.forward_scratch = [implementation](const OpDesc& query) {
    return ScratchWith(ForwardScratchOf(&implementation, query), query.context.inputs[0].shape, 1);
  };
  blocked.backward_scratch = [implementation](const OpDesc& query) {
    return ScratchWith(BackwardScratchOf(&implementation, query), query.context.inputs[0].shape, 2);
  };
  blocked.forward = [implementation](const Layer& layer, const ForwardArgs& args) {
    Forward(implementation, layer, args);
  };
  blocked.backward = [implementation](const Layer& layer, const BackwardArgs& args) {
    Backward(implementation, layer, args);
  };
  return blocked;
}

Implementation NativeOnBlockedInput() { return OnBlockedInput({}, "blocked input"); }

}  // namespace crema
