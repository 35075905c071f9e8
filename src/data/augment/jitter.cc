#include "data/augment/jitter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>

namespace crema {
namespace {

uint8_t ToByte(double value) {
  return static_cast<uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
}

size_t PlaneSize(const Image& image) {
  return static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
}

struct Pixel {
  double blue;
  double green;
  double red;

  double grey() const { return 0.299 * red + 0.587 * green + 0.114 * blue; }
};

// Replaces each pixel of an image of three channels by change(pixel).
template <typename Change>
void ChangePixels(Image* image, const Change& change) {
  const size_t plane = PlaneSize(*image);
  uint8_t* blue = image->pixels.data();
  uint8_t* green = blue + plane;
  uint8_t* red = green + plane;
  for (size_t i = 0; i < plane; ++i) {
    const Pixel out = change(Pixel{static_cast<double>(blue[i]), static_cast<double>(green[i]),
                                   static_cast<double>(red[i])});
    blue[i] = ToByte(out.blue);
    green[i] = ToByte(out.green);
    red[i] = ToByte(out.red);
  }
}

// Replaces each value v by factor * v + offset.
void ChangeValues(double factor, double offset, Image* image) {
  std::array<uint8_t, 256> table{};
  for (size_t v = 0; v < table.size(); ++v) {
    table[v] = ToByte(factor * static_cast<double>(v) + offset);
  }
  for (uint8_t& value : image->pixels) value = table[value];
}

double MeanOf(const uint8_t* values, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += values[i];
  return static_cast<double>(sum) / static_cast<double>(count);
}

double MeanGrey(const Image& image) {
  if (image.channels != 3) return MeanOf(image.pixels.data(), image.pixels.size());
  const size_t plane = PlaneSize(image);
  const uint8_t* blue = image.pixels.data();
  return Pixel{MeanOf(blue, plane), MeanOf(blue + plane, plane), MeanOf(blue + 2 * plane, plane)}
      .grey();
}

// Rotates the hue as colorsys.rgb_to_hsv and back would. Unit: sixths of the circle, from red by
// green to blue.
Pixel RotateHue(const Pixel& pixel, double sixths) {
  const double most = std::max({pixel.blue, pixel.green, pixel.red});
  const double range = most - std::min({pixel.blue, pixel.green, pixel.red});
  if (range == 0) return pixel;
  double hue = 0;
  if (most == pixel.red) {
    hue = (pixel.green - pixel.blue) / range;
  } else if (most == pixel.green) {
    hue = 2 + (pixel.blue - pixel.red) / range;
  } else {
    hue = 4 + (pixel.red - pixel.green) / range;
  }
  // Computes the channel whose hue is `at`.
  const auto channel = [&](double at) {
    const double apart = std::abs(std::remainder(hue + sixths - at, 6));
    return most - range * std::clamp(apart - 1, 0.0, 1.0);
  };
  return {channel(4), channel(2), channel(0)};
}

}  // namespace

void ScaleBrightness(double factor, Image* image) { ChangeValues(factor, 0, image); }

void ScaleContrast(double factor, Image* image) {
  ChangeValues(factor, (1 - factor) * MeanGrey(*image), image);
}

void ScaleSaturation(double factor, Image* image) {
  if (image->channels != 3) return;
  ChangePixels(image, [factor](const Pixel& pixel) {
    const double offset = (1 - factor) * pixel.grey();
    return Pixel{factor * pixel.blue + offset, factor * pixel.green + offset,
                 factor * pixel.red + offset};
  });
}

void RotateHue(double turn, Image* image) {
  if (image->channels != 3) return;
  ChangePixels(image, [turn](const Pixel& pixel) { return RotateHue(pixel, 6 * turn); });
}

void RemoveColor(Image* image) { ScaleSaturation(0, image); }

void FillPart(const PixelRect& part, const std::vector<uint8_t>& fill, Image* image) {
  const auto width = static_cast<size_t>(image->width);
  for (size_t c = 0; c < static_cast<size_t>(image->channels); ++c) {
    uint8_t* plane = image->pixels.data() + c * PlaneSize(*image);
    for (int y = part.top; y < part.top + part.height; ++y) {
      std::fill_n(plane + static_cast<size_t>(y) * width + part.left, part.width, fill[c]);
    }
  }
}

}  // namespace crema
