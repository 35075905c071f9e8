// Concat of the channels of blobs of bytes: implementation "int8". Always copies, since the blobs
// are stored pixel by pixel.
#include "layers/shape/concat_int8.h"

#include <algorithm>
#include <cstring>

#include "core/parallel_for.h"
#include "crema.pb.h"
#include "layers/int8_ranges.h"
#include "layers/shape/axis_parts.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 16;  // minimum bytes per thread

Support Supports(const OpDesc& query) {
  const Support support = SupportsInt8Pixels(query, query.context.inputs.size(), 1);
  if (!support.yes) return support;
  if (ConcatAxis(query.layer, query.context.inputs[0].shape) != 1) {
    return Support::No("is for axis 1");
  }
  const Int8Ranges& ranges = query.layer.param().int8();
  const bool one_range = std::ranges::all_of(
      ranges.bottom(), [&](const Int8Range& range) { return SameRange(range, ranges.top(0)); });
  return one_range ? Support{} : Support::No("is for inputs and output of one range");
}

void Forward(const Layer&, const ForwardArgs& args) {
  const Shape& whole = args.outputs[0].shape();
  const int64_t channels = whole[1];
  const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, channels));
  auto* y = static_cast<std::byte*>(args.outputs[0].raw());
  ParallelFor(args.context.threads(), whole[0] * whole.count(2), grain,
              [&](int64_t begin, int64_t end, int) {
                int64_t first = 0;
                for (const ConstTensorView& input : args.inputs) {
                  const int64_t part = input.shape()[1];
                  const auto* x = static_cast<const std::byte*>(input.raw());
                  for (int64_t p = begin; p < end; ++p) {
                    std::memcpy(y + p * channels + first, x + p * part, static_cast<size_t>(part));
                  }
                  first += part;
                }
              });
}

}  // namespace

ImplementationPtr Int8ConcatImplementation() {
  const auto info = [](const OpDesc& query) {
    LayerInfo copying = query.info;
    copying.contiguous_concat = false;
    copying.strided_concat = false;
    return copying;
  };
  return MakeSimpleImplementation(Int8Facts("int8"),
                                  {.supports = Supports, .forward = Forward, .info = info});
}

}  // namespace crema
