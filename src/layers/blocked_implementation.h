// What implementations on blocked blobs have in common.
#pragma once

#include "graph/registry.h"
#include "plan/precision.h"

namespace crema {

// Of implementations without room for channels that do not fill whole blocks: f32 and N x C x H x
// W.
inline Support SupportsWholeBlocks(const OpDesc& query) {
  const BlobSpec& input = query.context.inputs[0];
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  if (input.shape[1] % ChannelBlock() != 0) {
    return Support::No("is for channels that fill whole blocks");
  }
  return {};
}

// An implementation "blocked" that takes and gives blocked blobs.
inline Implementation MakeBlockedImplementation(Support (*supports)(const OpDesc&),
                                                void (*forward)(const Layer&, const ForwardArgs&),
                                                void (*backward)(const Layer&,
                                                                 const BackwardArgs&)) {
  Implementation implementation;
  implementation.name = "blocked";
  implementation.supports = supports;
  implementation.input_format = MemoryFormat::kBlocked;
  implementation.output_format = MemoryFormat::kBlocked;
  implementation.forward = forward;
  implementation.backward = backward;
  return implementation;
}

// The same implementation on blobs of bfloat16; its functions look at the type of what they are
// given.
inline Implementation StoringBFloat16(Implementation implementation) {
  implementation.name += " bf16";
  implementation.input_format = MemoryFormat::kBlockedBF16;
  implementation.output_format = MemoryFormat::kBlockedBF16;
  implementation.supports = [own = implementation.supports](const OpDesc& query) {
    Support support = StoresBFloat16(query);
    return support.yes && own ? own(query) : support;
  };
  return implementation;
}

}  // namespace crema
