#include "layers/blocked_input.h"

#include <array>
#include <utility>

#include "math/blocked_copy.h"
#include "math/scratch.h"

namespace crema {
namespace {

Support SupportsBlockedInput(const KernelQuery& query) {
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

// What a row may ask of a query is the same for both formats.
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

void Forward(const Kernel& row, const Layer& layer, const ForwardArgs& args) {
  ForwardArgs plain = args;
  const ConstTensorView input = PlainView(args.context.threads(), args.inputs[0], &plain.scratch);
  plain.inputs = {&input, 1};
  row.forward ? row.forward(layer, plain) : layer.Forward(plain);
}

void Backward(const Kernel& row, const Layer& layer, const BackwardArgs& args) {
  BackwardArgs plain = args;
  const int threads = args.context.threads();
  const Shape x = args.inputs[0].shape();
  const ConstTensorView input = PlainView(threads, args.inputs[0], &plain.scratch);
  plain.inputs = {&input, 1};
  TensorView gradient = args.input_grads[0];
  const bool copies = !gradient.empty() && !IsTheSame(x);
  if (copies) gradient = {TakeCopy(x, &plain.scratch), x, DType::kF32};
  plain.input_grads = {&gradient, 1};
  row.backward ? row.backward(layer, plain) : layer.Backward(plain);
  if (!copies) return;
  PlainToBlocked(threads, x[0], x[1], x.count(2), gradient.data<float>(),
                 args.input_grads[0].data<float>());
}

}  // namespace

Kernel OnBlockedInput(Kernel row, std::string name) {
  Kernel blocked = row;
  blocked.name = std::move(name);
  blocked.input_format = MemoryFormat::kBlocked;
  blocked.supports = [supports = row.supports](const KernelQuery& query) {
    const Support support = SupportsBlockedInput(query);
    return support.yes && supports ? supports(query) : support;
  };
  blocked.forward_scratch = [row](const KernelQuery& query) {
    return ScratchWith(ForwardScratchOf(&row, query), query.context.inputs[0].shape, 1);
  };
  blocked.backward_scratch = [row](const KernelQuery& query) {
    return ScratchWith(BackwardScratchOf(&row, query), query.context.inputs[0].shape, 2);
  };
  blocked.forward = [row](const Layer& layer, const ForwardArgs& args) {
    Forward(row, layer, args);
  };
  blocked.backward = [row](const Layer& layer, const BackwardArgs& args) {
    Backward(row, layer, args);
  };
  return blocked;
}

Kernel NativeOnBlockedInput() { return OnBlockedInput({}, "blocked input"); }

}  // namespace crema
