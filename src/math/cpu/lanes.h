// Internal: the channels of one pixel of a blocked blob, as a vector.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/bfloat16.h"

namespace crema {

// Converts between vectors of Word and those of its upper halves. The types are template
// parameters, as GCC converts no vector of a template whose element types are fixed.
template <int kBlock, typename Half, typename Word>
struct UpperHalves {
  typedef Half Halves __attribute__((vector_size(kBlock * sizeof(Half))));
  typedef Word Words __attribute__((vector_size(kBlock * sizeof(Word))));

  [[gnu::always_inline]] static void Load(const BFloat16* from, Words* words) {
    Halves halves;
    std::memcpy(&halves, from, sizeof(halves));
    *words = __builtin_convertvector(halves, Words) << 16;
  }
  [[gnu::always_inline]] static void Store(const Words& words, BFloat16* to) {
    const Words shifted = words >> 16;
    const Halves halves = __builtin_convertvector(shifted, Halves);
    std::memcpy(to, &halves, sizeof(halves));
  }
};

// GCC's vectors: processed as a whole if the processor can, in parts otherwise.
template <int kBlock>
struct Lanes {
  typedef float Floats __attribute__((vector_size(kBlock * sizeof(float))));
  typedef int32_t Ints __attribute__((vector_size(kBlock * sizeof(int32_t))));
  using Halves = UpperHalves<kBlock, uint16_t, uint32_t>;

  // Not returned: vectors that a processor may lack are passed in memory.
  [[gnu::always_inline]] static void Load(const float* from, Floats* value) {
    std::memcpy(value, from, sizeof(*value));
  }
  [[gnu::always_inline]] static void Store(const Floats& value, float* to) {
    std::memcpy(to, &value, sizeof(value));
  }
  [[gnu::always_inline]] static void Load(const BFloat16* from, Floats* value) {
    typename Halves::Words words;
    Halves::Load(from, &words);
    std::memcpy(value, &words, sizeof(words));
  }
  // As the constructor of BFloat16.
  [[gnu::always_inline]] static void Store(const Floats& value, BFloat16* to) {
    typename Halves::Words words;
    std::memcpy(&words, &value, sizeof(words));
    const typename Halves::Words rounded = words + 0x7FFF + ((words >> 16) & 1);
    const typename Halves::Words quiet = words | 0x400000;
    Halves::Store(value == value ? rounded : quiet, to);
  }
};

}  // namespace crema
