#include "data/pipeline/shuffle.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

std::vector<uint32_t> Permutation(uint32_t n, const RandomStream& random) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t left = n; left > 1; --left) {  // Fisher-Yates
    std::swap(order[left - 1], order[random.Below(left, left)]);
  }
  return order;
}

SampleOrder::SampleOrder(uint64_t count, OrderOptions options) : count_(count), options_(options) {
  using Kind = OrderOptions::Kind;
  CREMA_CHECK(count > 0 && (options.kind != Kind::kBlocks || options.block > 0));
  options_.block = options.kind == Kind::kBlocks ? std::min(options.block, count) : count;
  if (options.kind != Kind::kInOrder && options_.block > std::numeric_limits<uint32_t>::max()) {
    Fail(ErrorCode::kUnsupported, StrCat(options_.block,
                                         " samples are too many to be shuffled at once: set "
                                         "pipeline_param.shuffle_buffer, which shuffles blocks"));
  }
}

SampleOrder::Range SampleOrder::BlockOf(uint64_t ordinal) const {
  const uint64_t epoch_begin = ordinal / count_ * count_;
  const uint64_t begin = ordinal - (ordinal - epoch_begin) % options_.block;
  return {begin, std::min(begin + options_.block, epoch_begin + count_)};
}

uint64_t SampleOrder::SampleAt(uint64_t ordinal) {
  if (options_.kind == OrderOptions::Kind::kInOrder) return ordinal % count_;
  if (order_.empty() || ordinal < first_ || ordinal - first_ >= order_.size()) {
    const Range range = BlockOf(ordinal);
    const uint64_t stream = MixBits(options_.layer_id, HashName("record order"));
    // Each block of each epoch has its own start, and hence its own order.
    order_ = Permutation(static_cast<uint32_t>(range.end - range.begin),
                         RandomStream(options_.seed, stream, range.begin));
    first_ = range.begin;
  }
  return first_ % count_ + order_[ordinal - first_];
}

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
