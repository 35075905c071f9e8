// What implementations on blocked blobs have in common.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/implementation.h"
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

inline ImplementationFacts BlockedFacts(std::string name) {
  return {.name = std::move(name),
          .input_format = MemoryFormat::kBlocked,
          .output_format = MemoryFormat::kBlocked};
}

// An implementation "blocked" that takes and gives blocked blobs.
inline ImplementationPtr MakeBlockedImplementation(const ImplementationFunctions& functions) {
  return MakeSimpleImplementation(BlockedFacts("blocked"), functions);
}

// The same implementation on blobs of bfloat16; its functions look at the type of what they are
// given.
inline ImplementationPtr StoringBFloat16(const ImplementationPtr& implementation) {
  ImplementationFacts facts = *implementation;
  facts.name += " bf16";
  facts.input_format = facts.output_format = MemoryFormat::kBlockedBF16;
  return std::make_shared<ImplementationAdapter>(
      std::move(facts), implementation, std::vector<ImplementationAdapter::Check>{StoresBFloat16});
}

}  // namespace crema
