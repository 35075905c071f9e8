// What it takes to move blobs, as estimates of implementations and of reorders count it.
#pragma once

#include <span>

#include "core/tensor.h"
#include "graph/implementation.h"

namespace crema {

// A thread, of a copy in the caches and a little beyond, as far as reorders and implementations are
// compared.
inline constexpr double kCopyBytesPerSecond = 20e9;

inline double CopySeconds(std::span<const BlobSpec> specs, int threads) {
  double bytes = 0;
  for (const BlobSpec& spec : specs) bytes += static_cast<double>(StoredBytes(spec));
  return bytes / (kCopyBytesPerSecond * threads);
}

// To read the inputs of a layer and to write its outputs.
inline double CopySeconds(const OpDesc& query) {
  return CopySeconds(query.context.inputs, query.threads) +
         CopySeconds(query.info.outputs, query.threads);
}

}  // namespace crema
