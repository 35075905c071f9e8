// Helpers for implementations with blocked inputs and outputs.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/implementation.h"
#include "plan/precision.h"

namespace crema {

// Checks the support of implementations on blocked blobs: requires f32, N x C x H x W.
inline Support SupportsBlocked(const OpDesc& query) {
  const BlobSpec& input = query.context.inputs[0];
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  if (input.dtype != DType::kF32) return Support::No("is for f32");
  if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  return {};
}

// Checks the support of implementations that cannot handle a partly filled channel block: requires
// C divisible by ChannelBlock() too.
inline Support SupportsWholeBlocks(const OpDesc& query) {
  if (const Support support = SupportsBlocked(query); !support.yes) return support;
  if (query.context.inputs[0].shape[1] % ChannelBlock() != 0) {
    return Support::No("is for channels that fill whole blocks");
  }
  return {};
}

inline ImplementationFacts BlockedFacts(std::string name) {
  return {.name = std::move(name),
          .input_format = {Layout::kBlocked},
          .output_format = {Layout::kBlocked}};
}

// Makes an implementation named "blocked" with blocked input and output.
inline ImplementationPtr MakeBlockedImplementation(const ImplementationFunctions& functions) {
  return MakeSimpleImplementation(BlockedFacts("blocked"), functions);
}

// Returns the same implementation for blobs stored as bfloat16. Its functions must handle both
// stored types.
inline ImplementationPtr StoringBFloat16(const ImplementationPtr& implementation) {
  ImplementationFacts facts = *implementation;
  facts.name += " bf16";
  facts.input_format = facts.output_format = {Layout::kBlocked, DType::kBF16};
  return std::make_shared<ImplementationAdapter>(
      std::move(facts), implementation, std::vector<ImplementationAdapter::Check>{StoresBFloat16});
}

}  // namespace crema
