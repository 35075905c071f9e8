#include "data/batches/batch_mix.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/rng.h"

namespace crema {
namespace {

// Logarithm of a gamma variate: Marsaglia and Tsang, "A simple method for generating gamma
// variables", 2000. A shape below 1 uses their reduction to shape + 1. Logarithms avoid underflow
// for small shapes.
double DrawLogGamma(double shape, Draws& draws) {
  if (shape < 1) {
    const double log_u = std::log(draws.Uniform(1, 0));  // (0, 1]
    return DrawLogGamma(shape + 1, draws) + log_u / shape;
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = draws.Gaussian();
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double log_u = std::log(draws.Uniform(1, 0));
    if (log_u < 0.5 * x * x + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

// Mixes two samples; `share` is the weight of the first.
template <typename T>
void Blend(const T* own, const T* other, double share, ptrdiff_t count, T* out) {
  const T keep = static_cast<T>(share);
  const T take = static_cast<T>(1 - share);
  for (ptrdiff_t i = 0; i < count; ++i) out[i] = keep * own[i] + take * other[i];
}

// Copies `part` of each channel of `other` to `out`.
template <typename T>
void Paste(const T* other, const Shape& images, const PixelRect& part, T* out) {
  for (int64_t c = 0; c < images[1]; ++c) {
    for (int64_t y = part.top; y < part.top + part.height; ++y) {
      const ptrdiff_t first = (c * images[2] + y) * images[3] + part.left;
      std::copy_n(other + first, part.width, out + first);
    }
  }
}

template <typename T>
void MixImages(const ConstTensorView& from, const BatchMix::Draw& draw, const TensorView& to) {
  const Shape& shape = from.shape();
  const auto each = static_cast<ptrdiff_t>(shape.count(1));
  for (int64_t i = 0; i < shape[0]; ++i) {
    const T* own = from.data<T>() + i * each;
    const T* other = from.data<T>() + (i == 0 ? shape[0] - 1 : i - 1) * each;
    T* out = to.data<T>() + i * each;
    if (!draw.cuts) {
      Blend(own, other, draw.share, each, out);
    } else {
      std::copy_n(own, each, out);
      Paste(other, shape, draw.part, out);
    }
  }
}

template <typename T>
void MixLabels(const ConstTensorView& from, double share, const TensorView& to) {
  const int64_t batch = from.shape()[0];
  const auto classes = static_cast<ptrdiff_t>(from.shape()[1]);
  for (int64_t i = 0; i < batch; ++i) {
    const T* other = from.data<T>() + (i == 0 ? batch - 1 : i - 1) * classes;
    Blend(from.data<T>() + i * classes, other, share, classes, to.data<T>() + i * classes);
  }
}

}  // namespace

double DrawShare(double alpha, Draws& draws) {
  const double a = DrawLogGamma(alpha, draws);
  const double b = DrawLogGamma(alpha, draws);
  return 1 / (1 + std::exp(b - a));
}

BatchMix::Draw BatchMix::DrawFor(uint64_t position, int height, int width) const {
  Draws draws(RandomStream(options_.seed, MixBits(options_.layer_id, HashName("mix")), position));
  Draw draw;
  const double chance_to_cut = options_.cutmix == 0 ? 0 : (options_.mixup == 0 ? 1 : 0.5);
  draw.cuts = draws.Chance(chance_to_cut);
  draw.share = DrawShare(draw.cuts ? options_.cutmix : options_.mixup, draws);
  if (!draw.cuts) return draw;
  // A rectangle with this share of the area and the aspect ratio of the image, clipped to it.
  const double side = std::sqrt(1 - draw.share);
  const int half_height = static_cast<int>(side * height) / 2;
  const int half_width = static_cast<int>(side * width) / 2;
  const auto y = static_cast<int>(draws.Below(static_cast<uint32_t>(height)));
  const auto x = static_cast<int>(draws.Below(static_cast<uint32_t>(width)));
  draw.part.top = std::max(0, y - half_height);
  draw.part.left = std::max(0, x - half_width);
  draw.part.height = std::min(height, y + half_height) - draw.part.top;
  draw.part.width = std::min(width, x + half_width) - draw.part.left;
  const double taken = static_cast<double>(draw.part.height) * draw.part.width;
  draw.share = 1 - taken / (static_cast<double>(height) * width);
  return draw;
}

void BatchMix::Copy(std::span<const ConstTensorView> from, uint64_t position,
                    std::span<const TensorView> to) const {
  const Shape& images = from[0].shape();
  const Draw draw = DrawFor(position, static_cast<int>(images[2]), static_cast<int>(images[3]));
  DispatchFloat(from[0].dtype(), [&]<typename T>(T) {
    MixImages<T>(from[0], draw, to[0]);
    MixLabels<T>(from[1], draw.share, to[1]);
  });
}

}  // namespace crema
