// Position of a sample's pixels in their image, as bytes of a batch. A GPU uses it to mirror the
// pixels and to subtract the mean image, which is read at the uncropped, unmirrored place.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace crema {

// Per sample: three little-endian numbers of 4 bytes.
constexpr int64_t kPlacementBytes = 12;

struct PixelPlacement {
  int32_t top = 0;
  int32_t left = 0;
  bool mirror = false;
};

CREMA_HOST_DEVICE inline void StorePlacement(const PixelPlacement& placement, uint8_t* bytes) {
  const uint32_t numbers[3] = {static_cast<uint32_t>(placement.top),
                               static_cast<uint32_t>(placement.left), placement.mirror ? 1U : 0U};
  for (int i = 0; i < 3; ++i) {
    for (int b = 0; b < 4; ++b) bytes[4 * i + b] = static_cast<uint8_t>(numbers[i] >> 8 * b);
  }
}

CREMA_HOST_DEVICE inline PixelPlacement LoadPlacement(const uint8_t* bytes) {
  uint32_t numbers[3] = {0, 0, 0};
  for (int i = 0; i < 3; ++i) {
    for (int b = 0; b < 4; ++b) numbers[i] |= static_cast<uint32_t>(bytes[4 * i + b]) << 8 * b;
  }
  return {static_cast<int32_t>(numbers[0]), static_cast<int32_t>(numbers[1]), numbers[2] != 0};
}

}  // namespace crema
