// Counter-based random numbers: a value depends on its address, not on earlier draws.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/host_device.h"

namespace crema {

// Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.
CREMA_HOST_DEVICE inline std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter,
                                                        std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// Mixes several numbers to 64 bits (splitmix64 steps); the same on every machine.
uint64_t MixBits(uint64_t a, uint64_t b);

// Returns a stable 64-bit hash of a name (FNV-1a).
uint64_t HashName(std::string_view name);

// A stream of random numbers addressed by element. Value i of a stream depends on (seed, stream,
// step, i) only. Thread safety: const, any number of threads.
class RandomStream {
 public:
  // `stream` identifies the purpose, e.g. HashName(layer); `step` is the forward pass.
  RandomStream(uint64_t seed, uint64_t stream, uint64_t step = 0)
      : key_(MixBits(seed, stream)), step_(step) {}

  // Returns the same stream in another forward pass.
  CREMA_HOST_DEVICE RandomStream At(uint64_t step) const {
    RandomStream other = *this;
    other.step_ = step;
    return other;
  }

  CREMA_HOST_DEVICE uint32_t Bits(uint64_t index) const { return Block(index / 4)[index % 4]; }
  // Returns the four words of block `block`: elements 4*block .. 4*block+3. For bulk filling.
  CREMA_HOST_DEVICE std::array<uint32_t, 4> Block(uint64_t block) const {
    return Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                   static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32)},
                  {static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32)});
  }

  CREMA_HOST_DEVICE double Uniform(uint64_t index) const {  // [0, 1), 32 bits
    return Bits(index) * 0x1p-32;
  }
  // Returns a uniform number in 0..n-1, with negligible bias. Requires: n > 0.
  CREMA_HOST_DEVICE uint32_t Below(uint64_t index, uint32_t n) const {
    return static_cast<uint32_t>((uint64_t{Bits(index)} * n) >> 32);
  }
  double Gaussian(uint64_t index) const;  // mean 0, standard deviation 1 (Box-Muller)

 private:
  uint64_t key_;
  uint64_t step_;
};

}  // namespace crema
