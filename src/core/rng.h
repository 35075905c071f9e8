// Counter-based random numbers: a value is a function of what it is for, not of who asked before.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace crema {

// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// A 64-bit mix of several numbers (splitmix64 steps); equal input, equal output, on every machine.
uint64_t MixBits(uint64_t a, uint64_t b);

// Stable 64-bit hash of a name (FNV-1a).
uint64_t HashName(std::string_view name);

// A stream of random numbers addressed by element. Value i of a stream depends on (seed, stream,
// step, i) only. Thread safety: const, any number of threads.
class RandomStream {
 public:
  // `stream` says what the numbers are for, e.g. HashName(layer); `step` is the forward pass.
  RandomStream(uint64_t seed, uint64_t stream, uint64_t step = 0)
      : key_(MixBits(seed, stream)), step_(step) {}

  uint32_t Bits(uint64_t index) const;
  // The four words of block `block`: elements 4*block .. 4*block+3. For filling in bulk.
  std::array<uint32_t, 4> Block(uint64_t block) const;

  double Uniform(uint64_t index) const;  // [0, 1), 32 bits
  // Uniform in 0..n-1 without noticeable bias; requires n > 0.
  uint32_t Below(uint64_t index, uint32_t n) const;
  double Gaussian(uint64_t index) const;  // mean 0, deviation 1 (Box-Muller)

 private:
  uint64_t key_;
  uint64_t step_;
};

}  // namespace crema
