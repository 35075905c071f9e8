// Runs implementations on tensors of one layer's shapes, and times them.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "graph/implementation.h"

namespace crema {

// Runs during which other programs had the processors often.
enum class DisturbedRuns { kLeaveOut, kCount };

// Seconds of each implementation: the least of several runs of forward, and of backward too where
// `query.backward`, added. Implementations take turns, so that what else the machine does meets all
// of them. Before each run the caches are filled with something else, but for what the layer before
// (or behind, for backward) has just made, as in a net. Runs that other programs disturbed do not
// count. Empty when there is none that counts of some implementation before `deadline` (which is
// looked at between runs) or after many, or when an implementation throws Error. Thread safety:
// any.
std::vector<double> TimeImplementations(const OpDesc& query,
                                        std::span<const Implementation* const> implementations,
                                        std::chrono::steady_clock::time_point deadline,
                                        DisturbedRuns disturbed = DisturbedRuns::kLeaveOut);

}  // namespace crema
