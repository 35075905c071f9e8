// What becomes of samples that cannot be read or decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace crema {

enum class OnBadSample {
  kError,   // reading ends
  kSkip,    // the nearest good sample behind it in its batch takes its place
  kRepeat,  // the nearest good sample before it in its batch does
};

// Whether an error is about a sample (damaged, missing, unreadable) and not about how the net is
// configured, memory, or a bug of ours.
bool IsAboutSample(const Error& error);

// Which sample of a batch stands at each place: `bad` has a nonzero value for bad ones, which are
// replaced within their batch, going round at its ends. So a batch depends on its own samples only,
// and a run that is resumed goes on as it would have. Requires: a good one, and kSkip or kRepeat.
std::vector<size_t> ReplaceBadSamples(std::span<const uint8_t> bad, OnBadSample how);

// One bad sample of a batch.
struct FailedSample {
  size_t index = 0;    // in the batch
  std::string reason;  // names the sample
};

}  // namespace crema
