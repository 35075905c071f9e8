// Concat of the channels of blobs that are stored pixel by pixel, as bytes (implementation "int8")
// or bfloat16 ("channels last bf16"). Always copies.
#include "layers/shape/concat_pixels.h"

#include <algorithm>
#include <cstring>

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
  if (query.backward) return Support::No("computes no gradients");
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

void Forward(const Layer&, const ForwardArgs& args) {
  const Shape& whole = args.outputs[0].shape();
  const auto size = static_cast<int64_t>(SizeOf(args.outputs[0].dtype()));
  const int64_t pixel = whole[1] * size;  // bytes
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, pixel));
  auto* y = static_cast<std::byte*>(args.outputs[0].raw());
  ParallelFor(args.context.threads(), whole[0] * whole.count(2), grain,
              [&](int64_t begin, int64_t end, int) {
                int64_t first = 0;
                for (const ConstTensorView& input : args.inputs) {
                  const int64_t part = input.shape()[1] * size;
                  const auto* x = static_cast<const std::byte*>(input.raw());
                  for (int64_t p = begin; p < end; ++p) {
                    std::memcpy(y + p * pixel + first, x + p * part, static_cast<size_t>(part));
                  }
                  first += part;
                }
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
              {.name = "channels last bf16", .input_format = kBF16, .output_format = kBF16},
              {.supports = SupportsBF16, .forward = Forward, .info = info})};
}

}  // namespace crema
