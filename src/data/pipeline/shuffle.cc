#include "data/pipeline/shuffle.h"

#include <algorithm>
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

}  // namespace crema
