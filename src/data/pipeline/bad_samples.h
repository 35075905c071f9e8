// Handling of samples that cannot be read or decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/error.h"

namespace crema {

enum class OnBadSample {
  kError,   // stop reading
  kSkip,    // replace by the next good sample of the batch
  kRepeat,  // replace by the previous good sample of the batch
};

// Returns true if an error concerns a sample (damaged, missing, unreadable), and not the net's
// configuration, memory, or a bug.
bool IsAboutSample(const Error& error);

// Returns the index of the sample to use at each place of the batch. `bad` is nonzero for bad
// samples, which are replaced within the batch, wrapping around at its ends. Hence a batch depends
// on its own samples only, and a resumed run continues identically. Requires: a good sample, and
// kSkip or kRepeat.
std::vector<size_t> ReplaceBadSamples(std::span<const uint8_t> bad, OnBadSample how);

// A bad sample of a batch.
struct FailedSample {
  size_t index = 0;    // in the batch
  std::string reason;  // names the sample
};

}  // namespace crema
