#include "data/pipeline/large_permutation.h"

#include <bit>

#include "data/pipeline/shuffle.h"

namespace crema {

LargePermutation::LargePermutation(uint64_t n, const RandomStream& random) : n_(n) {
  if (n <= kLargestTable) {
    table_ = Permutation(static_cast<uint32_t>(n), random);
    return;
  }
  half_bits_ = (std::bit_width(n - 1) + 1) / 2;
  for (size_t i = 0; i < keys_.size(); ++i) {
    keys_[i] = uint64_t{random.Bits(2 * i)} << 32 | random.Bits(2 * i + 1);
  }
}

// Feistel network: permutes the numbers of 2 * half_bits_ bits.
uint64_t LargePermutation::Encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (const uint64_t key : keys_) {
    const uint64_t next = left ^ (MixBits(key, right) & mask);
    left = right;
    right = next;
  }
  return left << half_bits_ | right;
}

uint64_t LargePermutation::operator()(uint64_t index) const {
  if (!table_.empty()) return table_[index];
  // The cipher permutes at most 4 n numbers. Cycle walking skips those >= n.
  do {
    index = Encrypt(index);
  } while (index >= n_);
  return index;
}

}  // namespace crema
