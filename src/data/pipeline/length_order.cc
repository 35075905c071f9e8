#include "data/pipeline/length_order.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "core/error.h"
#include "data/pipeline/shuffle.h"

namespace crema {
namespace {

// Returns a number that grows by 8 with each doubling.
uint32_t BucketOf(uint32_t length) {
  const auto width = static_cast<uint32_t>(std::bit_width(length));
  const uint32_t shift = width > 4 ? width - 4 : 0;
  return shift * 8 + (length >> shift);
}

}  // namespace

std::vector<uint32_t> OrderByLength(std::span<const uint32_t> lengths) {
  std::vector<uint32_t> order(lengths.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, {}, [&](uint32_t sample) { return lengths[sample]; });
  return order;
}

std::vector<uint32_t> ShuffleByLength(std::span<const uint32_t> lengths, uint64_t first,
                                      uint64_t group, const RandomStream& random,
                                      const RandomStream& group_random) {
  CREMA_CHECK(group >= 1);
  const auto count = static_cast<uint64_t>(lengths.size());
  std::vector<uint32_t> sorted = Permutation(static_cast<uint32_t>(count), random);
  std::ranges::stable_sort(sorted, {}, [&](uint32_t sample) { return BucketOf(lengths[sample]); });
  const uint64_t head = std::min((group - first % group) % group, count);
  const uint64_t tail = (count - head) % group;
  const uint64_t groups = (count - head) / group;
  std::vector<uint32_t> order(sorted.begin(), sorted.begin() + static_cast<int64_t>(head));
  for (const uint32_t g : Permutation(static_cast<uint32_t>(groups), group_random)) {
    const auto begin = sorted.begin() + static_cast<int64_t>(head + tail + g * group);
    order.insert(order.end(), begin, begin + static_cast<int64_t>(group));
  }
  order.insert(order.end(), sorted.begin() + static_cast<int64_t>(head),
               sorted.begin() + static_cast<int64_t>(head + tail));
  return order;
}

}  // namespace crema
