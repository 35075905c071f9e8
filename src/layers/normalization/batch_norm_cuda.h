// BatchNorm of GPUs with the layers that its implementation fused, or that hands statistics to the
// layers next to it; batch_norm.cu takes it there, which is where the state of the implementation
// is not null.
#pragma once

#include <cstddef>
#include <memory>

#include "graph/implementation.h"
#include "math/group_stats.h"

namespace crema {

class BatchNormBase;

// Fuses a Scale, a sum and a ReLU, with the statistics of the batch or without a backward pass.
class CudaNormImplementation final : public FunctionImplementation {
 public:
  using FunctionImplementation::FunctionImplementation;
  bool CanFuse(const OpDesc& op) const override;
  Support Accepts(const OpDesc& op) const override;
  LayerInfo Info(const OpDesc& op) const override;
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override;
};
// Fuses nothing and hands nothing on: ForwardFusedNorm and BackwardFusedNorm are not called.
inline bool GoesAlone(const OpDesc& query) {
  return query.fused.empty() && !query.norm_fusion.any();
}
// In bytes. A group of the layout is a channel, here and below.
size_t FusedNormForwardScratch(const GroupLayout& groups);
size_t FusedNormBackwardScratch(const GroupLayout& groups);

// Blobs of f32, f16 or bf16; statistics and what is learned in f32 or of the same type as the
// blobs.
void ForwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                      const ForwardArgs& args);
void BackwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                       const BackwardArgs& args);

}  // namespace crema
