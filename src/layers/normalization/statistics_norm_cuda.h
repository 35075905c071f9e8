// BatchNorm of GPUs with the layers that its row absorbed; statistics_norm.cu takes it where there
// are some, which is where the state of the row is not null.
#pragma once

#include <cstddef>

#include "graph/registry.h"
#include "math/group_stats.h"

namespace crema {

class StatisticsNorm;

// Lets a row absorb a Scale, a sum and a ReLU, with the statistics of the batch or without a
// backward pass.
void AbsorbOnGpu(Kernel* row);
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
