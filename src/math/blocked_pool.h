// Pooling of planes of ChannelBlock() channels each (core/memory_format.h): the same windows,
// values, indices and rules as in math/pool.h, a vector of channels at a time. Forward also pools
// channels-last blobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/memory_format.h"
#include "math/pool.h"

namespace crema {

// Batch x blocks of channels, and the image stride of y and dy; all else is dense.
struct BlockedPoolPlanes {
  BlockedPoolPlanes(int64_t all) : count(all) {}  // NOLINT: dense
  BlockedPoolPlanes(int64_t batch, int64_t blocks, int64_t image_stride)
      : count(batch * blocks), image(blocks), stride(image_stride) {}

  // Returns those of channels-last blobs; `channels` fill whole blocks.
  static BlockedPoolPlanes ChannelsLast(int64_t batch, int64_t channels) {
    BlockedPoolPlanes planes(batch, channels / ChannelBlock(), 0);
    planes.channels_last = channels;
    return planes;
  }

  // Returns the elements from one pixel to the next.
  int64_t PixelStep() const { return channels_last > 0 ? channels_last : ChannelBlock(); }
  // Return the offset of a plane of x or y, of `pixels` pixels.
  int64_t InputBefore(int64_t plane, int64_t pixels) const {
    if (channels_last == 0) return plane * pixels * ChannelBlock();
    return plane / image * pixels * channels_last + plane % image * ChannelBlock();
  }
  int64_t OutputBefore(int64_t plane, int64_t pixels) const {
    if (stride == 0) return InputBefore(plane, pixels);
    return plane / image * stride + plane % image * pixels * ChannelBlock();
  }

  int64_t count;
  int64_t image = 1;          // planes of one
  int64_t stride = 0;         // elements from one image to the next; 0: dense
  int64_t channels_last = 0;  // channels of channels-last blobs; 0: blocked
};

// For all functions below: T, the type of the elements, is float or BFloat16; work is divided among
// `threads` threads, and results do not depend on their number. Index is uint8_t or int32_t. Thread
// safety: any.

// `index`, in the order of blocked blobs, may be null.
template <typename T, typename Index>
void BlockedMaxPool(int threads, const PoolWindow& window, const BlockedPoolPlanes& planes,
                    const T* x, T* y, Index* index);
// Returns the BFloat16 elements of scratch for the functions below, where sums are taken; float
// needs none.
size_t BlockedPoolBackwardScratch(int threads, const PoolWindow& window);
template <typename T, typename Index>
void BlockedMaxPoolBackward(int threads, const PoolWindow& window, const BlockedPoolPlanes& planes,
                            const Index* index, const T* dy, T* dx, std::span<std::byte> scratch);

// Requires that no window is empty.
template <typename T>
void BlockedAveragePool(int threads, const PoolWindow& window, bool exclude_pad,
                        const BlockedPoolPlanes& planes, const T* x, T* y);
template <typename T>
void BlockedAveragePoolBackward(int threads, const PoolWindow& window, bool exclude_pad,
                                const BlockedPoolPlanes& planes, const T* dy, T* dx,
                                std::span<std::byte> scratch);

}  // namespace crema
