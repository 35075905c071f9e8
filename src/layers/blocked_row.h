// What rows on blocked blobs have in common.
#pragma once

#include "graph/precision.h"
#include "graph/registry.h"

namespace crema {

// Of rows without room for channels that do not fill whole blocks: f32 and N x C x H x W.
inline Support SupportsWholeBlocks(const KernelQuery& query) {
  const BlobSpec& input = query.context.inputs[0];
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  if (input.shape[1] % ChannelBlock() != 0) {
    return Support::No("is for channels that fill whole blocks");
  }
  return {};
}

// A row "blocked" that takes and gives blocked blobs.
inline Kernel MakeBlockedRow(Support (*supports)(const KernelQuery&),
                             void (*forward)(const Layer&, const ForwardArgs&),
                             void (*backward)(const Layer&, const BackwardArgs&)) {
  Kernel row;
  row.name = "blocked";
  row.supports = supports;
  row.input_format = MemoryFormat::kBlocked;
  row.output_format = MemoryFormat::kBlocked;
  row.forward = forward;
  row.backward = backward;
  return row;
}

// The same row on blobs of bfloat16; its functions look at the type of what they are given.
inline Kernel StoringBFloat16(Kernel row) {
  row.name += " bf16";
  row.input_format = MemoryFormat::kBlockedBF16;
  row.output_format = MemoryFormat::kBlockedBF16;
  row.supports = [own = row.supports](const KernelQuery& query) {
    Support support = StoresBFloat16(query);
    return support.yes && own ? own(query) : support;
  };
  return row;
}

}  // namespace crema
