#include "data/augment/fit.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "crema.pb.h"
#include "data/image/image.h"

namespace crema {
namespace {

Interpolation DrawInterpolation(const ResizeParameter& param, Draws& draws) {
  if (param.interp_mode_size() == 0) return Interpolation::kLinear;
  const uint32_t drawn = draws.Below(static_cast<uint32_t>(param.interp_mode_size()));
  const int first = ResizeParameter::LINEAR;  // both lists have one order
  return static_cast<Interpolation>(param.interp_mode(static_cast<int>(drawn)) - first);
}

// Index of the source pixel for `at`, which may lie outside of a line of n pixels. MIRRORED does
// not repeat the edge pixel: 2 1 0 1 2.
int SourceIndex(int at, int n, ResizeParameter::Pad_mode mode) {
  if (mode == ResizeParameter::REPEAT_NEAREST || n == 1) return std::clamp(at, 0, n - 1);
  const int period = 2 * (n - 1);
  const int folded = (at % period + period) % period;
  return folded < n ? folded : period - folded;
}

Image ContinueEdges(const Image& image, const Fit& fit, ResizeParameter::Pad_mode mode) {
  Image out{.channels = image.channels, .height = fit.height, .width = fit.width, .pixels = {}};
  for (int c = 0; c < image.channels; ++c) {
    for (int y = 0; y < fit.height; ++y) {
      const int from = SourceIndex(y - fit.inner.top, image.height, mode);
      const uint8_t* row =
          image.pixels.data() + (static_cast<ptrdiff_t>(c) * image.height + from) * image.width;
      for (int x = 0; x < fit.width; ++x) {
        out.pixels.push_back(row[SourceIndex(x - fit.inner.left, image.width, mode)]);
      }
    }
  }
  return out;
}

std::vector<uint8_t> PadValues(const ResizeParameter& param, int channels) {
  std::vector<uint8_t> values;
  for (int c = 0; c < channels; ++c) {
    const int given = param.pad_value_size();
    const float value = given == 0 ? 0 : param.pad_value(std::min(c, given - 1));
    values.push_back(static_cast<uint8_t>(std::clamp(std::round(value), 0.f, 255.f)));
  }
  return values;
}

}  // namespace

Fit FitTo(const ResizeParameter& param, int height, int width) {
  Fit fit{.inner = {},
          .height = static_cast<int>(param.height()),
          .width = static_cast<int>(param.width())};
  const double aspect = static_cast<double>(width) / height;
  const bool wider = aspect > static_cast<double>(fit.width) / fit.height;
  const auto at_least_one = [](double value) { return std::max(1, static_cast<int>(value)); };
  if (param.resize_mode() == ResizeParameter::FIT_SMALL_SIZE) {
    if (wider) {
      fit.width = at_least_one(std::min(1e5, fit.height * aspect));
    } else {
      fit.height = at_least_one(std::min(1e5, fit.width / aspect));
    }
  }
  fit.inner.height = fit.height;
  fit.inner.width = fit.width;
  if (param.resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD) {
    if (wider) {
      fit.inner.height = std::min(fit.height, at_least_one(fit.width / aspect));
    } else {
      fit.inner.width = std::min(fit.width, at_least_one(fit.height * aspect));
    }
    fit.inner.top = (fit.height - fit.inner.height) / 2;
    fit.inner.left = (fit.width - fit.inner.width) / 2;
  }
  return fit;
}

Box FitBox(const Fit& fit, const Box& box) {
  const auto x = [&](double value) {
    return (fit.inner.left + value * fit.inner.width) / fit.width;
  };
  const auto y = [&](double value) {
    return (fit.inner.top + value * fit.inner.height) / fit.height;
  };
  return {.xmin = x(box.xmin), .ymin = y(box.ymin), .xmax = x(box.xmax), .ymax = y(box.ymax)};
}

Image ResizeToFit(const ResizeParameter& param, const Image& image, Draws& draws) {
  const Fit fit = FitTo(param, image.height, image.width);
  Image resized = Resize(image, fit.inner.height, fit.inner.width, DrawInterpolation(param, draws));
  if (fit.inner.height == fit.height && fit.inner.width == fit.width) return resized;
  if (param.pad_mode() != ResizeParameter::CONSTANT) {
    return ContinueEdges(resized, fit, param.pad_mode());
  }
  const PixelRect canvas{
      .top = fit.inner.top, .left = fit.inner.left, .height = fit.height, .width = fit.width};
  return PutOnCanvas(resized, canvas, PadValues(param, image.channels));
}

}  // namespace crema
