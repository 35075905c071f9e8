#include "layers/activation/part_blocks.h"

#include "core/memory_format.h"
#include "layers/blocked_implementation.h"

namespace crema {
namespace {

Support SupportsPartBlocks(const OpDesc& query) {
  const BlobSpec& input = query.context.inputs[0];
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  if (input.shape[1] % ChannelBlock() != 0) return {};
  return Support::No("is for channels that do not fill whole blocks");
}

// Returns a view of all channels of the blocks.
template <typename View>
View WholeBlocks(const View& part) {
  if (part.empty()) return part;
  const Shape& s = part.shape();
  const int64_t block = ChannelBlock();
  return {part.raw(), Shape{s[0], (s[1] + block - 1) / block * block, s[2], s[3]}, part.dtype()};
}

void ForwardBlocked(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView x = WholeBlocks(args.inputs[0]);
  const TensorView y = WholeBlocks(args.outputs[0]);
  ForwardArgs whole = args;
  whole.inputs = {&x, 1};
  whole.outputs = {&y, 1};
  layer.Forward(whole);
}

void BackwardBlocked(const Layer& layer, const BackwardArgs& args) {
  const ConstTensorView x = WholeBlocks(args.inputs[0]);
  const ConstTensorView y = WholeBlocks(args.outputs[0]);
  const ConstTensorView dy = WholeBlocks(args.output_grads[0]);
  const TensorView dx = WholeBlocks(args.input_grads[0]);
  BackwardArgs whole = args;
  whole.inputs = {&x, 1};
  whole.outputs = {&y, 1};
  whole.output_grads = {&dy, 1};
  whole.input_grads = {&dx, 1};
  layer.Backward(whole);
}

}  // namespace

std::vector<ImplementationPtr> PartBlockImplementations() {
  const ImplementationPtr blocked = MakeBlockedImplementation(
      {.supports = SupportsPartBlocks, .forward = ForwardBlocked, .backward = BackwardBlocked});
  return {blocked, StoringBFloat16(blocked)};
}

}  // namespace crema
