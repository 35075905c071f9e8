// The resizing of Pillow, which torchvision's transforms use: each output pixel is the weighted
// mean of all input pixels below it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/image/image.h"

namespace crema {
namespace {

constexpr int kPrecisionBits = 32 - 8 - 2;

double Triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// Keys's cubic kernel with a = -0.5.
double Cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * kA;
  return 0;
}

// The input positions of one output position, with their weights.
struct Taps {
  int first = 0;
  std::vector<int32_t> weights;  // fixed point
};

std::vector<Taps> TapsOf(int from, int to, bool cubic) {
  const double scale = static_cast<double>(from) / to;
  const double filter_scale = std::max(scale, 1.0);
  const double support = (cubic ? 2 : 1) * filter_scale;
  const double inverse = 1 / filter_scale;
  std::vector<Taps> taps(static_cast<size_t>(to));
  std::vector<double> weights;
  for (int i = 0; i < to; ++i) {
    const double center = (i + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int last = std::min(from, static_cast<int>(center + support + 0.5));
    weights.clear();
    double sum = 0;
    for (int x = first; x < last; ++x) {
      const double at = (x - center + 0.5) * inverse;
      weights.push_back(cubic ? Cubic(at) : Triangle(at));
      sum += weights.back();
    }
    Taps& tap = taps[static_cast<size_t>(i)];
    tap.first = first;
    for (const double weight : weights) {
      const double fixed = weight / (sum != 0 ? sum : 1) * (1 << kPrecisionBits);
      tap.weights.push_back(static_cast<int32_t>(fixed + (fixed < 0 ? -0.5 : 0.5)));
    }
  }
  return taps;
}

// Returns the weighted sum of values that lie `step` apart.
uint8_t Weighted(const Taps& tap, const uint8_t* values, size_t step) {
  int32_t sum = 1 << (kPrecisionBits - 1);
  for (size_t k = 0; k < tap.weights.size(); ++k) sum += values[k * step] * tap.weights[k];
  return static_cast<uint8_t>(std::clamp(sum >> kPrecisionBits, 0, 255));
}

Image ResizeWidth(const Image& image, int width, bool cubic) {
  Image out{.channels = image.channels, .height = image.height, .width = width, .pixels = {}};
  const std::vector<Taps> taps = TapsOf(image.width, width, cubic);
  const size_t rows = static_cast<size_t>(image.channels) * static_cast<size_t>(image.height);
  out.pixels.reserve(rows * taps.size());
  for (size_t row = 0; row < rows; ++row) {
    const uint8_t* const values = image.pixels.data() + row * static_cast<size_t>(image.width);
    for (const Taps& tap : taps) out.pixels.push_back(Weighted(tap, values + tap.first, 1));
  }
  return out;
}

Image ResizeHeight(const Image& image, int height, bool cubic) {
  Image out{.channels = image.channels, .height = height, .width = image.width, .pixels = {}};
  const std::vector<Taps> taps = TapsOf(image.height, height, cubic);
  const auto width = static_cast<size_t>(image.width);
  const size_t plane = static_cast<size_t>(image.height) * width;
  out.pixels.reserve(static_cast<size_t>(image.channels) * taps.size() * width);
  for (size_t c = 0; c < static_cast<size_t>(image.channels); ++c) {
    for (const Taps& tap : taps) {
      const uint8_t* const values =
          image.pixels.data() + c * plane + static_cast<size_t>(tap.first) * width;
      for (size_t x = 0; x < width; ++x) out.pixels.push_back(Weighted(tap, values + x, width));
    }
  }
  return out;
}

}  // namespace

Image ResizeAntialiased(const Image& image, int height, int width, bool cubic) {
  CREMA_CHECK(height > 0 && width > 0);
  constexpr int64_t kMostPixels = int64_t{1} << 26;
  if (int64_t{image.height} * width > kMostPixels) {  // of the image between the passes
    Fail(ErrorCode::kInvalidArgument,
         StrCat("an image of ", image.width, "x", image.height, " is too narrow to be resized to ",
                width, "x", height, " with antialiasing"));
  }
  const Image narrowed = width == image.width ? image : ResizeWidth(image, width, cubic);
  return height == narrowed.height ? narrowed : ResizeHeight(narrowed, height, cubic);
}

}  // namespace crema
