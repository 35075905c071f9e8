// Sequence of random numbers for one sample.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/rng.h"

namespace crema {

// Thread safety: one thread at a time.
class Draws {
 public:
  explicit Draws(const RandomStream& stream) : stream_(stream) {}

  double Uniform(double low, double high) { return low + (high - low) * stream_.Uniform(next_++); }
  bool Chance(double probability) { return stream_.Uniform(next_++) < probability; }
  // Returns a number of mean 0 and standard deviation 1 (Box-Muller).
  double Gaussian() {
    const double radius = std::sqrt(-2 * std::log(Uniform(1, 0)));  // from (0, 1]
    return radius * std::cos(Uniform(0, 2 * std::numbers::pi));
  }
  uint32_t Below(uint32_t n) { return stream_.Below(next_++, n); }

 private:
  const RandomStream stream_;
  uint64_t next_ = 0;
};

}  // namespace crema
