#include "core/rng.h"

#include <cmath>
#include <numbers>

namespace crema {

namespace {

uint64_t SplitMix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

}  // namespace

uint64_t MixBits(uint64_t a, uint64_t b) { return SplitMix(SplitMix(a) ^ b); }

uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

double RandomStream::Gaussian(uint64_t index) const {
  const std::array<uint32_t, 4> words = Block(index);
  // 53 bits for the radius, so that the tail is not truncated at 6.6 deviations.
  const uint64_t bits = (uint64_t{words[0]} << 21) ^ (words[1] >> 11);
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(bits) + 1.0) * 0x1p-53));
  return radius * std::cos(2.0 * std::numbers::pi * words[2] * 0x1p-32);
}

}  // namespace crema
