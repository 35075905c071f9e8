// Random numbers of one sample, one after the other.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace crema {

// Thread safety: one thread at a time.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}

  double Uniform(double low, double high) { return low + (high - low) * stream_.Uniform(next_++); }
  bool Chance(double probability) { return stream_.Uniform(next_++) < probability; }
  uint32_t Below(uint32_t n) { return stream_.Below(next_++, n); }

 private:
  const RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace crema
