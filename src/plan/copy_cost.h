// Estimated cost of memory traffic, for estimates of implementations and of reorders.
#pragma once

#include <span>

#include "core/tensor.h"
#include "graph/implementation.h"

namespace crema {

// Copy rate of one thread for data in the caches and slightly larger. Used to compare reorders with
// implementations.
inline constexpr double kCopyBytesPerSecond = 20e9;

inline double CopySeconds(std::span<const BlobSpec> specs, int threads) {
  double bytes = 0;
  for (const BlobSpec& spec : specs) bytes += static_cast<double>(StoredBytes(spec));
  return bytes / (kCopyBytesPerSecond * threads);
}

// Multiply-adds of a GPU in the time of a byte of memory traffic. Measured on an H100: 52 (f32),
// 398 (TF32) and 780 (16 bits) TFLOP/s beside 2.8 TB/s.
inline constexpr double kGpuMacsPerByte = 9, kGpuTf32MacsPerByte = 70, kGpuHalfMacsPerByte = 140;

// Returns the seconds to read the inputs of a layer and to write its outputs.
inline double CopySeconds(const OpDesc& query) {
  return CopySeconds(query.context.inputs, query.threads) +
         CopySeconds(query.info.outputs, query.threads);
}

}  // namespace crema
