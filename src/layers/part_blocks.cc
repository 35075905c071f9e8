#include "layers/part_blocks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/strings.h"
#include "layers/blocked_implementation.h"

namespace crema {
namespace {

constexpr size_t kMostBlobs = 8;

Support Supports(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  if (!query.info.any_format) return Support::No("is for operands of one shape");
  if (std::max(query.context.inputs.size(), query.info.outputs.size()) > kMostBlobs) {
    return Support::No(StrCat("is for at most ", kMostBlobs, " bottoms and tops"));
  }
  if (query.backward && !query.info.saved.empty()) return Support::No("saves nothing for backward");
  if (query.context.inputs[0].shape[1] % ChannelBlock() != 0) return {};
  return Support::No("is for channels that do not fill whole blocks");
}

// Returns whether every byte of the first element that pads `part` is 0. The others are equal to
// it: a layer computes all of them from zeros.
bool PadsByZero(const TensorView& part) {
  const auto size = static_cast<int64_t>(SizeOf(part.dtype()));
  const int64_t block = ChannelBlock(), channels = part.shape()[1];
  const int64_t at = channels / block * block * part.shape().count(2) + channels % block;
  const auto* element = static_cast<const std::byte*>(part.raw()) + at * size;
  return std::all_of(element, element + size, [](std::byte b) { return b == std::byte{0}; });
}

void ClearUnlessZero(const TensorView& part) {
  if (!part.empty() && part.count() > 0 && !PadsByZero(part)) ClearPadding(part);
}

// The views of whole blocks of some blobs.
template <typename View>
class WholeViews {
 public:
  explicit WholeViews(std::span<const View> parts) : count_(parts.size()) {
    std::ranges::transform(parts, views_.begin(), WholeBlocks<View>);
  }
  std::span<const View> Get() const { return {views_.data(), count_}; }

 private:
  std::array<View, kMostBlobs> views_;
  size_t count_;
};

void Forward(const Layer& layer, const ForwardArgs& args) {
  const WholeViews<ConstTensorView> inputs(args.inputs);
  const WholeViews<TensorView> outputs(args.outputs);
  ForwardArgs whole = args;
  whole.inputs = inputs.Get();
  whole.outputs = outputs.Get();
  layer.Forward(whole);
  for (const TensorView& y : args.outputs) ClearUnlessZero(y);
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const WholeViews<ConstTensorView> inputs(args.inputs), outputs(args.outputs);
  const WholeViews<ConstTensorView> output_grads(args.output_grads);
  const WholeViews<TensorView> input_grads(args.input_grads);
  BackwardArgs whole = args;
  whole.inputs = inputs.Get();
  whole.outputs = outputs.Get();
  whole.output_grads = output_grads.Get();
  whole.input_grads = input_grads.Get();
  layer.Backward(whole);
  for (const TensorView& dx : args.input_grads) ClearUnlessZero(dx);
}

}  // namespace

void ClearPadding(const TensorView& part) {
  const Shape& shape = part.shape();
  const int64_t block = ChannelBlock(), pixels = shape.count(2), used = shape[1] % block;
  if (used == 0) return;
  const auto size = static_cast<int64_t>(SizeOf(part.dtype()));
  const int64_t blocks = shape[1] / block + 1;
  for (int64_t n = 0; n < shape[0]; ++n) {
    auto* last =
        static_cast<std::byte*>(part.raw()) + ((n + 1) * blocks - 1) * pixels * block * size;
    for (int64_t p = 0; p < pixels; ++p) {
      std::memset(last + (p * block + used) * size, 0, static_cast<size_t>((block - used) * size));
    }
  }
}

std::vector<ImplementationPtr> PartBlocksImplementations() {
  const ImplementationPtr blocked =
      MakeBlockedImplementation({.supports = Supports, .forward = Forward, .backward = Backward});
  return {blocked, StoringBFloat16(blocked)};
}

}  // namespace crema
