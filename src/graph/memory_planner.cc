#include "graph/memory_planner.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

namespace crema {
namespace {

constexpr int64_t kAlignment = 64;

int64_t Aligned(int64_t bytes) {
  return std::max<int64_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
}

// All live at the same time: one behind the other.
std::optional<Placement> PlaceInARow(const std::vector<BufferRequest>& requests) {
  Placement placement{{}, 0};
  for (const BufferRequest& request : requests) {
    if (request.first != requests[0].first || request.last != requests[0].last) return {};
    placement.offsets.push_back(placement.arena_bytes);
    placement.arena_bytes += Aligned(request.bytes);
  }
  return placement;
}

}  // namespace

Placement PlaceBuffers(const std::vector<BufferRequest>& requests) {
  if (std::optional<Placement> row = PlaceInARow(requests)) return *std::move(row);
  std::vector<size_t> order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return requests[i].bytes; });
  Placement placement{std::vector<int64_t>(requests.size(), 0), 0};
  std::vector<size_t> placed;  // by offset
  for (size_t i : order) {
    const BufferRequest& request = requests[i];
    int64_t offset = 0;
    for (size_t j : placed) {
      const BufferRequest& other = requests[j];
      if (other.last < request.first || request.last < other.first) continue;
      if (placement.offsets[j] >= offset + Aligned(request.bytes)) break;
      offset = std::max(offset, placement.offsets[j] + Aligned(other.bytes));
    }
    placement.offsets[i] = offset;
    placement.arena_bytes = std::max(placement.arena_bytes, offset + Aligned(request.bytes));
    const auto after = std::ranges::upper_bound(placed, offset, {},
                                                [&](size_t j) { return placement.offsets[j]; });
    placed.insert(after, i);
  }
  return placement;
}

}  // namespace crema
