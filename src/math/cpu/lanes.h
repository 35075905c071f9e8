// Internal: the channels of one pixel of a blocked blob, as a vector.
#pragma once

#include <cstdint>
#include <cstring>

namespace crema {

// GCC's vectors: their elements are processed at once where the processor
// can, and in parts where it cannot.
template <int kBlock>
struct Lanes {
  typedef float Floats __attribute__((vector_size(kBlock * sizeof(float))));
  typedef int32_t Ints __attribute__((vector_size(kBlock * sizeof(int32_t))));

  // Not returned: vectors that a processor may lack are in memory when they are passed on.
  [[gnu::always_inline]] static void Load(const float* from, Floats* value) {
    std::memcpy(value, from, sizeof(*value));
  }
  [[gnu::always_inline]] static void Store(const Floats& value, float* to) {
    std::memcpy(to, &value, sizeof(value));
  }
};

}  // namespace crema
