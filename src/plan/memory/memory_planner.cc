#include "plan/memory/memory_planner.h"

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

// Places buffers one after the other if all have the same lifetime; else returns nothing.
std::optional<Placement> PlaceInARow(const std::vector<BufferRequest>& requests) {
  Placement placement{{}, 0};
  for (const BufferRequest& request : requests) {
    if (request.first != requests[0].first || request.last != requests[0].last) return {};
    placement.offsets.push_back(placement.arena_bytes);
    placement.arena_bytes += Aligned(request.bytes);
  }
  return placement;
}

using Order = std::vector<size_t>;

// Time grows with the square of the count: with more buffers only one order is tried.
constexpr size_t kMostForOtherOrders = 4000;

Placement PlaceInOrder(const std::vector<BufferRequest>& requests, const Order& order) {
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

// Returns the order of descending `key`. Equal keys keep their order.
template <typename Key>
Order Falling(const std::vector<BufferRequest>& requests, const Key& key) {
  Order order(requests.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](size_t i) { return key(requests[i]); });
  return order;
}

// Orders buffers by distance from the fullest step, the nearest first.
Order AroundThePeak(const std::vector<BufferRequest>& requests) {
  const std::vector<int64_t> live = LiveBytes(requests);
  const auto peak = static_cast<int>(std::ranges::max_element(live) - live.begin());
  return Falling(requests, [peak](const BufferRequest& request) {
    const int distance = std::max({0, request.first - peak, peak - request.last});
    return std::pair(-distance, request.bytes);
  });
}

std::vector<Order> OtherOrders(const std::vector<BufferRequest>& requests) {
  const auto length = [](const BufferRequest& request) {
    return int64_t{request.last} - request.first + 1;
  };
  return {
      AroundThePeak(requests),
      Falling(requests,
              [&](const BufferRequest& r) { return static_cast<double>(r.bytes * length(r)); }),
      Falling(requests, [&](const BufferRequest& r) { return std::pair(length(r), r.bytes); }),
      Falling(requests, [](const BufferRequest& r) { return std::pair(-r.first, r.bytes); }),
      Falling(requests, [](const BufferRequest& r) { return std::pair(r.last, r.bytes); }),
  };
}

bool IsTight(const Placement& placement, int64_t bound) {
  return placement.arena_bytes - bound <= bound / 100;
}

// Moves the buffer that reaches highest to the front and places all again, for several rounds.
Placement Promote(const std::vector<BufferRequest>& requests, Order order, int64_t bound) {
  constexpr size_t kMostRounds = 64, kMostSteps = 20'000'000;
  const size_t rounds = std::min(kMostRounds, kMostSteps / (requests.size() * requests.size()));
  Placement best = PlaceInOrder(requests, order), last = best;
  for (size_t round = 0; round < rounds && !IsTight(best, bound); ++round) {
    const auto top = std::ranges::find_if(order, [&](size_t i) {
      return last.offsets[i] + Aligned(requests[i].bytes) == last.arena_bytes;
    });
    std::rotate(order.begin(), top, top + 1);
    last = PlaceInOrder(requests, order);
    if (last.arena_bytes < best.arena_bytes) best = last;
  }
  return best;
}

}  // namespace

std::vector<int64_t> LiveBytes(const std::vector<BufferRequest>& requests) {
  int last = 0;
  for (const BufferRequest& request : requests) last = std::max(last, request.last);
  std::vector<int64_t> live(static_cast<size_t>(last) + 2, 0);
  for (const BufferRequest& request : requests) {
    live[static_cast<size_t>(request.first)] += Aligned(request.bytes);
    live[static_cast<size_t>(request.last) + 1] -= Aligned(request.bytes);
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

int64_t LargestLiveSet(const std::vector<BufferRequest>& requests) {
  return std::ranges::max(LiveBytes(requests));
}

Placement PlaceBuffers(const std::vector<BufferRequest>& requests) {
  if (std::optional<Placement> row = PlaceInARow(requests)) return *std::move(row);
  const Order largest_first = Falling(requests, [](const BufferRequest& r) { return r.bytes; });
  Placement best = PlaceInOrder(requests, largest_first);
  if (requests.size() > kMostForOtherOrders) return best;
  const int64_t bound = LargestLiveSet(requests);
  std::vector<Order> orders = OtherOrders(requests);
  const auto take = [&](Placement placement) {
    if (placement.arena_bytes < best.arena_bytes) best = std::move(placement);
  };
  for (const Order& order : orders) {
    if (!IsTight(best, bound)) take(PlaceInOrder(requests, order));
  }
  orders.insert(orders.begin(), largest_first);
  for (const Order& order : orders) {
    if (!IsTight(best, bound)) take(Promote(requests, order, bound));
  }
  return best;
}

}  // namespace crema
