// Draws handwritten-looking digits.
#pragma once

#include <cstdint>
#include <opencv2/core.hpp>

#include "core/rng.h"

namespace crema::tools {

inline constexpr int kDigitSide = 28;  // of DrawDigit, in pixels

// Random numbers of one drawing, in sequence. Uses two streams, since RandomStream::Gaussian
// consumes four elements at once.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t drawing)
      : uniform_(seed, HashName("digit"), drawing), gaussian_(seed, HashName("noise"), drawing) {}
  double Uniform(double low, double high) {
    return low + (high - low) * uniform_.Uniform(next_uniform_++);
  }
  int Below(int n) {
    return static_cast<int>(uniform_.Below(next_uniform_++, static_cast<uint32_t>(n)));
  }
  bool Chance(double probability) { return Uniform(0, 1) < probability; }
  double Gaussian(double deviation) { return deviation * gaussian_.Gaussian(next_gaussian_++); }

 private:
  RandomStream uniform_;
  RandomStream gaussian_;
  uint64_t next_uniform_ = 0;
  uint64_t next_gaussian_ = 0;
};

// Returns the strokes of a warped digit, white on black, 8 bits, four times as large as DrawDigit.
cv::Mat DrawStrokes(int label, Dice* dice);

// Returns a whole picture of a digit: gray, noisy, 28x28, 8 bits.
cv::Mat DrawDigit(uint64_t seed, uint64_t index, int label);

// Returns the class of a digit: each ten digits contain every class once, in random order.
int LabelOfDigit(uint64_t seed, uint64_t index);

}  // namespace crema::tools
