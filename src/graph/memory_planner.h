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

// Greedy by size: the largest first, each at the lowest offset that no buffer alive at the same
// time covers (Pisarchyk and Lee, "Efficient memory management for deep neural net inference",
// 2020).
Placement PlaceBuffers(const std::vector<BufferRequest>& requests);

}  // namespace crema
