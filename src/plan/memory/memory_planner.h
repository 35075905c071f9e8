// Places buffers with known lifetimes into one arena.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

// Live during steps first..last, both included.
struct BufferRequest {
  int64_t bytes = 0;
  int first = 0;
  int last = 0;
};

struct Placement {
  std::vector<int64_t> offsets;  // by request; multiples of 64
  int64_t arena_bytes = 0;
};

// Greedy: one buffer after the other, each at the lowest offset that no buffer alive at the same
// time covers; the largest first (Pisarchyk and Lee, "Efficient memory management for deep neural
// net inference", 2020). Where that needs over 1 % more than the largest live set, other orders are
// tried, and the best counts.
Placement PlaceBuffers(const std::vector<BufferRequest>& requests);

// Bytes that are live at each step 0..last, as they are placed (multiples of 64).
std::vector<int64_t> LiveBytes(const std::vector<BufferRequest>& requests);
// The most that is live at one time: no placement takes less.
int64_t LargestLiveSet(const std::vector<BufferRequest>& requests);

}  // namespace crema
