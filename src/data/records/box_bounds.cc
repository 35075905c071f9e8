#include "data/records/box_bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "core/error.h"
#include "data/records/annotated_datum.h"

namespace crema {
namespace {

// most[n]: total boxes of the n records with the most.
using Most = std::vector<uint64_t>;

// The shard's sequence of records is periodic.
uint64_t BoundCyclic(const Most& most, uint64_t batch, uint64_t world) {
  const uint64_t count = most.size() - 1;
  const uint64_t round = count / std::gcd(count, world);
  return batch / round * most[round] + most[batch % round];
}

// A batch consists of the end of one epoch, whole epochs, and the start of another. A record occurs
// at most once in each of them, and those with the most boxes may come anywhere.
uint64_t BoundAnyOrder(const Most& most, uint64_t batch, uint64_t world) {
  const uint64_t count = most.size() - 1;
  // Records of a shard in an epoch; some epochs have one more.
  const uint64_t least = count / world;
  const uint64_t largest = least + (count % world == 0 ? 0 : 1);
  if (least == 0) return batch * most[1];
  uint64_t bound = 0;
  // Fewer whole epochs do not increase the bound.
  const uint64_t most_whole = batch / least;
  for (uint64_t whole = most_whole - std::min<uint64_t>(most_whole, 3); whole <= most_whole;
       ++whole) {
    const uint64_t ends = std::min(batch - whole * least, 2 * largest);
    bound = std::max(bound, whole * most[largest] + most[ends / 2] + most[ends - ends / 2]);
  }
  return bound;
}

}  // namespace

BoxBounds BoundBoxes(std::vector<uint64_t> boxes, uint64_t batch, OrderOptions::Kind order,
                     const Shard& shard) {
  CREMA_CHECK(!boxes.empty());
  std::ranges::sort(boxes, std::greater<>());
  Most most(boxes.size() + 1);
  std::partial_sum(boxes.begin(), boxes.end(), most.begin() + 1);
  const bool circle = order == OrderOptions::Kind::kInOrder;
  return {.record = boxes.front(),
          .batch = circle ? BoundCyclic(most, batch, shard.world)
                          : BoundAnyOrder(most, batch, shard.world)};
}

BoxBounds FindBoxBounds(RecordReader& reader, uint64_t batch, OrderOptions::Kind order,
                        const Shard& shard) {
  std::vector<uint64_t> boxes(reader.count());
  reader.Seek(0);
  for (uint64_t& count : boxes) count = CountBoxes(reader.Next().value);
  return BoundBoxes(std::move(boxes), batch, order, shard);
}

}  // namespace crema
