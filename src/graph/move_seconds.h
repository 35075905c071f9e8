// What it takes to move blobs, as estimates of rows and of reorders count it.
#pragma once

#include <span>

#include "core/tensor.h"
#include "graph/registry.h"

namespace crema {

// A thread, of a copy in the caches and a little beyond, as far as reorders and rows are compared.
inline constexpr double kMovedBytesPerSecond = 20e9;

inline double MoveSeconds(std::span<const BlobSpec> specs, int threads) {
  double bytes = 0;
  for (const BlobSpec& spec : specs) bytes += static_cast<double>(StoredBytes(spec));
  return bytes / (kMovedBytesPerSecond * threads);
}

// To read the inputs of a layer and to write its outputs.
inline double MoveSeconds(const KernelQuery& query) {
  return MoveSeconds(query.context.inputs, query.threads) +
         MoveSeconds(query.info.outputs, query.threads);
}

}  // namespace crema
