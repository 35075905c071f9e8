// BatchNorm on the GPU with fused layers.
// batch_norm.cu calls it if the state of the implementation is not null.
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
  LayerInfo Info(const OpDesc& op) const override;
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override;
};
// Returns true without fused layers: ForwardFusedNorm and BackwardFusedNorm are then not called.
inline bool GoesAlone(const OpDesc& query) { return query.fused.empty(); }
// Return bytes. The groups of the layout are channels, here and below.
size_t FusedNormForwardScratch(const GroupLayout& groups);
size_t FusedNormBackwardScratch(const GroupLayout& groups);

// Blobs are f32, f16 or bf16. Statistics and parameters are f32 or of the type of the blobs.
void ForwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                      const ForwardArgs& args);
void BackwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                       const BackwardArgs& args);

}  // namespace crema
