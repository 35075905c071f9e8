// Runs rows of a kernel list on tensors of one layer's shapes, and times them.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "graph/registry.h"

namespace crema {

// Runs during which other programs had the processors often.
enum class DisturbedRuns { kLeaveOut, kCount };

// Seconds of each row: the least of several runs of forward, and of backward too where
// `query.backward`, added. Rows take turns, so that what else the machine does meets all of them.
// Before each run the caches are filled with something else, but for what the layer before (or
// behind, for backward) has just made, as in a net. Runs that other programs disturbed do not
// count. Empty when there is none that counts of some row before `deadline` (which is looked at
// between runs) or after many, or when a row throws Error. Thread safety: any.
std::vector<double> TimeRows(const KernelQuery& query, std::span<const Kernel* const> rows,
                             std::chrono::steady_clock::time_point deadline,
                             DisturbedRuns disturbed = DisturbedRuns::kLeaveOut);

}  // namespace crema
