// Random orders of sets too large for a table.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace crema {

// A permutation of 0..n-1 that depends on the stream only, in bounded memory: a table for small n
// (Permutation), else a cipher of the index. Thread safety: const.
class LargePermutation {
 public:
  static constexpr uint64_t kLargestTable = uint64_t{1} << 20;

  LargePermutation() = default;  // empty
  LargePermutation(uint64_t n, const RandomStream& random);

  uint64_t operator()(uint64_t index) const;  // requires: index < n

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t n_ = 0;
  std::vector<uint32_t> table_;
  int half_bits_ = 0;
  std::array<uint64_t, 6> keys_{};  // round keys
};

}  // namespace crema
