#include "plan/memory/memory_planner.h"

#include <gtest/gtest.h>

#include "core/rng.h"

namespace crema {
namespace {

void ExpectNoOverlap(const std::vector<BufferRequest>& requests, const Placement& placement) {
  for (size_t a = 0; a < requests.size(); ++a) {
    EXPECT_EQ(placement.offsets[a] % 64, 0);
    EXPECT_LE(placement.offsets[a] + requests[a].bytes, placement.arena_bytes);
    for (size_t b = 0; b < a; ++b) {
      const bool same_time =
          requests[a].first <= requests[b].last && requests[b].first <= requests[a].last;
      const bool same_place = placement.offsets[a] < placement.offsets[b] + requests[b].bytes &&
                              placement.offsets[b] < placement.offsets[a] + requests[a].bytes;
      EXPECT_FALSE(same_time && same_place) << a << " and " << b;
    }
  }
}

TEST(PlaceBuffers, ReusesDeadMemory) {
  const std::vector<BufferRequest> chain = {{1024, 0, 1}, {1024, 1, 2}, {1024, 2, 3}, {1024, 3, 4}};
  const Placement placement = PlaceBuffers(chain);
  ExpectNoOverlap(chain, placement);
  EXPECT_EQ(placement.arena_bytes, 2048);
}

TEST(PlaceBuffers, TakesTheOrderThatNeedsLeast) {
  // The largest first leaves no room below for the second, which then needs 768 bytes in all.
  const std::vector<BufferRequest> requests = {{320, 6, 7}, {128, 2, 5}, {512, 1, 3}, {320, 5, 8}};
  const Placement placement = PlaceBuffers(requests);
  ExpectNoOverlap(requests, placement);
  EXPECT_EQ(LargestLiveSet(requests), 640);
  EXPECT_EQ(placement.arena_bytes, 640);
}

TEST(LiveBytes, CountsBothEnds) {
  EXPECT_EQ(LiveBytes({{64, 0, 1}, {100, 1, 2}}), (std::vector<int64_t>{64, 192, 128}));
  EXPECT_EQ(LargestLiveSet({{64, 0, 1}, {100, 1, 2}}), 192);
  EXPECT_EQ(LargestLiveSet({}), 0);
}

TEST(PlaceBuffers, RandomRequestsNeverOverlap) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const RandomStream random(seed, 1);
    std::vector<BufferRequest> requests;
    for (uint64_t i = 0; i < 60; ++i) {
      const int first = static_cast<int>(random.Below(3 * i, 40));
      requests.push_back({random.Below(3 * i + 1, 5000), first,
                          first + static_cast<int>(random.Below(3 * i + 2, 10))});
    }
    ExpectNoOverlap(requests, PlaceBuffers(requests));
  }
}

}  // namespace
}  // namespace crema
