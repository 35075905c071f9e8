// Layers that move whole pixels run on blocked blobs too, as on planes whose elements are the
// channels of a block.
#pragma once

#include <algorithm>

#include "core/bfloat16.h"
#include "core/memory_format.h"
#include "core/shape.h"
#include "layers/blocked_implementation.h"

namespace crema {

// The channels of one block of a pixel.
template <typename T, int kBlock>
struct BlockedPixel {
  BlockedPixel() = default;
  explicit BlockedPixel(float value) { std::fill_n(lane, kBlock, static_cast<T>(value)); }
  T lane[kBlock];
};

// Calls body(Pixel()) with the BlockedPixel of a blob that is stored as `stored`, f32 or bf16.
template <typename Body>
void DispatchPixels(DType stored, Body&& body) {
  const bool wide = ChannelBlock() == 16;
  if (stored == DType::kBF16) return body(BlockedPixel<BFloat16, 16>());  // has AVX-512
  wide ? body(BlockedPixel<float, 16>()) : body(BlockedPixel<float, 8>());
}

// Returns N x blocks x H x W for the blocked blob N x C x H x W.
inline Shape PixelShape(const Shape& x) {
  return x.With(1, (x[1] + ChannelBlock() - 1) / ChannelBlock());
}

// Checks the support of a layer that moves pixels forward; channels need not fill blocks.
inline Support SupportsPixels(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  if (query.backward) return Support::No("computes no gradients");
  return {};
}

}  // namespace crema
