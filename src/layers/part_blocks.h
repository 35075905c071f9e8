// Implementations of elementwise layers on blocked blobs whose channels do not fill whole blocks.
// Those of whole blocks need none (LayerInfo::any_format).
#pragma once

#include <vector>

#include "core/memory_format.h"
#include "core/tensor.h"
#include "graph/implementation.h"

namespace crema {

// Returns implementations "blocked" and "blocked bf16" of an elementwise layer. They
// call the methods of the layer on all channels of the blocks, and set those that pad the last
// block to 0 where the layer gives another value there.
std::vector<ImplementationPtr> PartBlocksImplementations();

// Returns a view of all channels of the blocks of a blocked blob.
template <typename View>
View WholeBlocks(const View& part) {
  if (part.empty()) return part;
  const Shape& s = part.shape();
  const int64_t block = ChannelBlock();
  return {part.raw(), Shape{s[0], (s[1] + block - 1) / block * block, s[2], s[3]}, part.dtype()};
}

// Sets the elements that pad the last block of each image of a blocked blob to 0.
void ClearPadding(const TensorView& part);

}  // namespace crema
