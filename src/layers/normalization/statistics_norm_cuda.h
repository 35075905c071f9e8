// BatchNorm of GPUs with the layers that its row absorbed, or that hands statistics to the layers
// next to it; statistics_norm.cu takes it there, which is where the state of the row is not null.
#pragma once

#include <cstddef>

#include "graph/registry.h"
#include "math/group_stats.h"

namespace crema {

class StatisticsNorm;

// Lets a row absorb a Scale, a sum and a ReLU, with the statistics of the batch or without a
// backward pass.
void AbsorbOnGpu(Kernel* row);
// Kernel::hands_as_norm of a row that AbsorbOnGpu was called for.
Support HandsAsNorm(const KernelQuery& query);
// Absorbs nothing and hands nothing on: ForwardFusedNorm and BackwardFusedNorm are not called.
inline bool GoesAlone(const KernelQuery& query) {
  return query.absorbed.empty() && !query.handed.any();
}
// In bytes. A group of the layout is a channel, here and below.
size_t FusedNormForwardScratch(const GroupLayout& groups);
size_t FusedNormBackwardScratch(const GroupLayout& groups);

// Blobs of f32, f16 or bf16; statistics and what is learned in f32 or of the same type as the
// blobs.
void ForwardFusedNorm(const StatisticsNorm& norm, const GroupLayout& groups,
                      const ForwardArgs& args);
void BackwardFusedNorm(const StatisticsNorm& norm, const GroupLayout& groups,
                       const BackwardArgs& args);

}  // namespace crema
