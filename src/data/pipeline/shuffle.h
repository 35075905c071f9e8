// Reproducible random orders.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace crema {

// Returns a permutation of 0..n-1 that depends on the stream only.
std::vector<uint32_t> Permutation(uint32_t n, const RandomStream& random);

// Assigns the samples of an endless sequence to processes: ordinal % world == rank. In each epoch
// (`count` ordinals from epoch * count on), every sample occurs once over all processes, for any
// count and world. If world does not divide count, the shares differ by one sample and rotate over
// the epochs.
struct Shard {
  uint64_t rank = 0;
  uint64_t world = 1;  // above rank

  uint64_t Ordinal(uint64_t position) const { return position * world + rank; }
  // Returns the first position with an ordinal >= `ordinal`.
  uint64_t PositionFrom(uint64_t ordinal) const {
    return ordinal <= rank ? 0 : (ordinal - rank + world - 1) / world;
  }
};

struct OrderOptions {
  enum class Kind {
    kInOrder,
    kShuffled,  // permutes all samples, differently in each epoch
    kBlocks,    // permutes consecutive blocks of `block` samples, differently in each epoch
  };
  Kind kind = Kind::kInOrder;
  uint64_t block = 0;
  uint64_t seed = 1;
  uint64_t layer_id = 0;
};

// Maps an ordinal of the endless sequence to one of `count` samples. Depends on options and ordinal
// only. Caches the order of one epoch or block. Thread safety: one thread at a time.
class SampleOrder {
 public:
  // Requires: count >= 1, and in kBlocks block >= 1. Throws kUnsupported if 2^32 samples or more
  // are permuted together.
  SampleOrder(uint64_t count, OrderOptions options);

  uint64_t SampleAt(uint64_t ordinal);

  // The ordinals that are permuted together with `ordinal`.
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };
  Range BlockOf(uint64_t ordinal) const;
  uint64_t count() const { return count_; }
  const OrderOptions& options() const { return options_; }

 private:
  const uint64_t count_;
  OrderOptions options_;
  uint64_t first_ = 0;           // ordinal of order_[0]
  std::vector<uint32_t> order_;  // empty: not computed yet
};

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
