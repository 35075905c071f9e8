// Random orders that can be asked for again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace crema {

// A permutation of 0..n-1, the same for the same stream.
std::vector<uint32_t> Permutation(uint32_t n, const RandomStream& random);

// Which samples of an endless sequence belong to one process: those whose ordinal % world == rank.
// Each ordinal belongs to one process, so in each epoch, `count` ordinals from epoch * count on,
// each sample comes once in all processes together, whatever count and world are. Where world does
// not divide count, the shares differ by one sample, and rotate from epoch to epoch.
struct Shard {
  uint64_t rank = 0;
  uint64_t world = 1;  // at least 1, above rank

  uint64_t Ordinal(uint64_t position) const { return position * world + rank; }
  // The first position whose ordinal is not below `ordinal`.
  uint64_t PositionFrom(uint64_t ordinal) const {
    return ordinal <= rank ? 0 : (ordinal - rank + world - 1) / world;
  }
};

struct OrderOptions {
  enum class Kind {
    kInOrder,
    kShuffled,  // a permutation of all, another one each epoch
    kBlocks,    // consecutive blocks of `block` samples are permuted, another way each epoch
  };
  Kind kind = Kind::kInOrder;
  uint64_t block = 0;
  uint64_t seed = 1;
  uint64_t layer_id = 0;
};

// Which of `count` samples is number `ordinal` of the endless sequence: a function of the options
// and the ordinal. Keeps the order of one epoch or block. Thread safety: one thread at a time.
class SampleOrder {
 public:
  // Requires a count of 1 or more, and in kBlocks a block of 1 or more. Throws kUnsupported where
  // 2^32 samples or more are to be permuted at once.
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
  std::vector<uint32_t> order_;  // empty: none yet
};

}  // namespace crema
