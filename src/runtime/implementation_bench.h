// Runs implementations on tensors of one layer's shapes, and times them.
#pragma once

#include <chrono>
#include <span>
#include <vector>

#include "graph/implementation.h"

namespace crema {

// Runs during which other programs often used the processors.
enum class DisturbedRuns { kLeaveOut, kCount };

// Returns the seconds of each implementation: the least of several runs of forward, plus that of
// backward if `query.backward`. Implementations take turns, so that other load affects all of them.
// Before each run the caches are filled with other data, except for the output of the previous
// layer (or of the next one, for backward), as in a net. Disturbed runs do not count. Returns
// nothing if some implementation has no counted run before `deadline` (checked between runs) or
// after many runs, or throws Error. Thread safety: any.
std::vector<double> TimeImplementations(const OpDesc& query,
                                        std::span<const Implementation* const> implementations,
                                        std::chrono::steady_clock::time_point deadline,
                                        DisturbedRuns disturbed = DisturbedRuns::kLeaveOut);

}  // namespace crema
