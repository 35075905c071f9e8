// Concat of the channels of blobs that are stored pixel by pixel, as bytes (implementation "int8")
// or bfloat16 ("NHWC bf16"). Always copies.
#include "layers/shape/concat_pixels.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "layers/shape/axis_parts.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 16;  // minimum bytes per thread

bool JoinsChannels(const OpDesc& query) {
  return ConcatAxis(query.layer, query.context.inputs[0].shape) == 1;
}

Support SupportsBF16(const OpDesc& query) {
  if (const Support stores = StoresBFloat16(query); !stores.yes) return stores;
  if (query.context.dtype != DType::kF32) return Support::No("is for f32");
  if (query.context.inputs[0].shape.axes() != 4) return Support::No("is for N x C x H x W");
  return JoinsChannels(query) ? Support{} : Support::No("is for axis 1");
}

Support SupportsInt8(const OpDesc& query) {
  const Support support = SupportsInt8Pixels(query, query.context.inputs.size(), 1);
  if (!support.yes) return support;
  if (!JoinsChannels(query)) return Support::No("is for axis 1");
  const Int8Ranges& ranges = query.layer.param().int8();
  const bool one_range = std::ranges::all_of(
      ranges.bottom(), [&](const Int8Range& range) { return SameRange(range, ranges.top(0)); });
  return one_range ? Support{} : Support::No("is for inputs and output of one range");
}

// Calls copy(byte of the whole, byte of the part, bytes) for the channels of a part in each pixel.
// `channels` are those of the parts.
template <typename Copy>
void ForPixels(int threads, const Shape& whole, DType type, std::span<const int64_t> channels,
               Copy&& copy) {
  const auto size = static_cast<int64_t>(SizeOf(type));
  const int64_t pixel = whole[1] * size;  // bytes
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, pixel));
  ParallelFor(threads, whole[0] * whole.count(2), grain, [&](int64_t begin, int64_t end, int) {
    int64_t first = 0;
    for (size_t i = 0; i < channels.size(); ++i) {
      const int64_t part = channels[i] * size;
      for (int64_t p = begin; p < end; ++p) {
        copy(i, p * pixel + first, p * part, static_cast<size_t>(part));
      }
      first += part;
    }
  });
}

std::vector<int64_t> ChannelsOf(std::span<const ConstTensorView> parts) {
  std::vector<int64_t> channels;
  for (const ConstTensorView& part : parts) channels.push_back(part.shape()[1]);
  return channels;
}

void Forward(const Layer&, const ForwardArgs& args) {
  const TensorView& y = args.outputs[0];
  auto* to = static_cast<std::byte*>(y.raw());
  ForPixels(args.context.threads(), y.shape(), y.dtype(), ChannelsOf(args.inputs),
            [&](size_t i, int64_t whole, int64_t part, size_t bytes) {
              const auto* from = static_cast<const std::byte*>(args.inputs[i].raw());
              std::memcpy(to + whole, from + part, bytes);
            });
}

void Backward(const Layer&, const BackwardArgs& args) {
  const ConstTensorView& dy = args.output_grads[0];
  const auto* from = static_cast<const std::byte*>(dy.raw());
  ForPixels(args.context.threads(), dy.shape(), dy.dtype(), ChannelsOf(args.inputs),
            [&](size_t i, int64_t whole, int64_t part, size_t bytes) {
              if (args.input_grads[i].empty()) return;
              auto* to = static_cast<std::byte*>(args.input_grads[i].raw());
              std::memcpy(to + part, from + whole, bytes);
            });
}

}  // namespace

std::vector<ImplementationPtr> PixelConcatImplementations() {
  const auto info = [](const OpDesc& query) {
    LayerInfo copying = query.info;
    copying.contiguous_concat = false;
    copying.strided_concat = false;
    return copying;
  };
  constexpr MemoryFormat kBF16{Layout::kNHWC, DType::kBF16};
  return {MakeSimpleImplementation(Int8Facts("int8"),
                                   {.supports = SupportsInt8, .forward = Forward, .info = info}),
          MakeSimpleImplementation(
              {.name = "NHWC bf16", .input_format = kBF16, .output_format = kBF16},
              {.supports = SupportsBF16, .forward = Forward, .backward = Backward, .info = info})};
}

}  // namespace crema
