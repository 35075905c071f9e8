// An order in which samples of similar length are neighbours.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/rng.h"

namespace crema {

// Returns a permutation of the samples of these lengths, ascending by length; samples of the same
// length keep their order.
std::vector<uint32_t> OrderByLength(std::span<const uint32_t> lengths);

// Returns a random permutation whose groups of `group` samples have similar lengths: of one bucket,
// or of neighbouring ones. A bucket covers an eighth of a doubling. Groups begin where `first`, the
// number of the first sample in an endless sequence, and its successors are multiples of `group`;
// samples that fill no group are the shortest. Depends on the arguments only. Requires: group >= 1.
std::vector<uint32_t> ShuffleByLength(std::span<const uint32_t> lengths, uint64_t first,
                                      uint64_t group, const RandomStream& random,
                                      const RandomStream& group_random);

}  // namespace crema
