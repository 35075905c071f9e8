#include "data/augment/canvas.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "crema.pb.h"

namespace crema {
namespace {

size_t RowAt(const Image& image, int channel, int y) {
  return (static_cast<size_t>(channel) * static_cast<size_t>(image.height) +
          static_cast<size_t>(y)) *
         static_cast<size_t>(image.width);
}

size_t PixelCount(int channels, int height, int width) {
  return static_cast<size_t>(channels) * static_cast<size_t>(height) * static_cast<size_t>(width);
}

constexpr int kTries = 10;

struct AreaRange {
  double min_area;  // shares of the image
  double max_area;
  double min_aspect;  // width over height
  double max_aspect;
};

template <typename Message>
AreaRange RangeOf(const Message& param) {
  return {static_cast<double>(param.min_area()), static_cast<double>(param.max_area()),
          static_cast<double>(param.min_aspect()), static_cast<double>(param.max_aspect())};
}

// Draws the size only; it may exceed the image.
PixelRect DrawSize(const AreaRange& range, int height, int width, Draws& draws) {
  const double area = draws.Uniform(range.min_area, range.max_area) * height * width;
  const double aspect =
      std::exp(draws.Uniform(std::log(range.min_aspect), std::log(range.max_aspect)));
  const auto side = [](double length) {  // clamped against overflow
    return static_cast<int>(std::lround(std::min(length, 1e9)));
  };
  return {.height = side(std::sqrt(area / aspect)), .width = side(std::sqrt(area * aspect))};
}

void DrawPlace(int height, int width, Draws& draws, PixelRect* part) {
  part->top = static_cast<int>(draws.Below(static_cast<uint32_t>(height - part->height) + 1));
  part->left = static_cast<int>(draws.Below(static_cast<uint32_t>(width - part->width) + 1));
}

PixelRect MiddleOf(const AreaRange& range, int height, int width) {
  PixelRect part{.height = height, .width = width};
  const double aspect = static_cast<double>(width) / height;
  if (aspect < range.min_aspect) {
    part.height = static_cast<int>(std::lround(width / range.min_aspect));
  } else if (aspect > range.max_aspect) {
    part.width = static_cast<int>(std::lround(height * range.max_aspect));
  }
  part.height = std::clamp(part.height, 1, height);
  part.width = std::clamp(part.width, 1, width);
  part.top = (height - part.height) / 2;
  part.left = (width - part.width) / 2;
  return part;
}

}  // namespace

Image Crop(const Image& image, const PixelRect& part) {
  Image out{.channels = image.channels, .height = part.height, .width = part.width, .pixels = {}};
  out.pixels.reserve(PixelCount(image.channels, part.height, part.width));
  for (int c = 0; c < image.channels; ++c) {
    for (int y = part.top; y < part.top + part.height; ++y) {
      const uint8_t* first = image.pixels.data() + RowAt(image, c, y) + part.left;
      out.pixels.insert(out.pixels.end(), first, first + part.width);
    }
  }
  return out;
}

void Mirror(Image* image) {
  for (auto row = image->pixels.begin(); row != image->pixels.end(); row += image->width) {
    std::reverse(row, row + image->width);
  }
}

Image PutOnCanvas(const Image& image, const PixelRect& canvas, const std::vector<uint8_t>& fill) {
  Image out{
      .channels = image.channels, .height = canvas.height, .width = canvas.width, .pixels = {}};
  for (int c = 0; c < image.channels; ++c) {
    out.pixels.insert(out.pixels.end(), PixelCount(1, canvas.height, canvas.width),
                      fill[static_cast<size_t>(c)]);
    for (int y = 0; y < image.height; ++y) {
      std::copy_n(image.pixels.data() + RowAt(image, c, y), image.width,
                  out.pixels.data() + RowAt(out, c, canvas.top + y) + canvas.left);
    }
  }
  return out;
}

PixelRect PixelsOf(const Box& box, int height, int width) {
  const Box clipped = Clip(box);
  PixelRect part{.top = std::min(height - 1, static_cast<int>(clipped.ymin * height)),
                 .left = std::min(width - 1, static_cast<int>(clipped.xmin * width))};
  part.height = std::clamp(static_cast<int>(clipped.height() * height), 1, height - part.top);
  part.width = std::clamp(static_cast<int>(clipped.width() * width), 1, width - part.left);
  return part;
}

Box BoxOf(const PixelRect& part, int height, int width) {
  const double h = height;
  const double w = width;
  return {.xmin = part.left / w,
          .ymin = part.top / h,
          .xmax = (part.left + part.width) / w,
          .ymax = (part.top + part.height) / h};
}

PixelRect DrawCanvas(const ExpansionParameter& param, int height, int width, Draws& draws) {
  PixelRect canvas{.height = height, .width = width};
  if (!draws.Chance(static_cast<double>(param.prob()))) return canvas;
  const double ratio = draws.Uniform(1, static_cast<double>(param.max_expand_ratio()));
  canvas.height = static_cast<int>(height * ratio);
  canvas.width = static_cast<int>(width * ratio);
  canvas.top = static_cast<int>(draws.Uniform(0, canvas.height - height));
  canvas.left = static_cast<int>(draws.Uniform(0, canvas.width - width));
  return canvas;
}

PixelRect DrawResizedCrop(const AugmentParameter::ResizedCrop& param, int height, int width,
                          Draws& draws) {
  const AreaRange range = RangeOf(param);
  for (int i = 0; i < kTries; ++i) {
    PixelRect part = DrawSize(range, height, width, draws);
    if (part.height < 1 || part.height > height || part.width < 1 || part.width > width) continue;
    DrawPlace(height, width, draws, &part);
    return part;
  }
  return MiddleOf(range, height, width);
}

std::optional<PixelRect> DrawErased(const AugmentParameter::Erase& param, int height, int width,
                                    Draws& draws) {
  const AreaRange range = RangeOf(param);
  for (int i = 0; i < kTries; ++i) {
    PixelRect part = DrawSize(range, height, width, draws);
    if (part.height < 1 || part.height >= height || part.width < 1 || part.width >= width) continue;
    DrawPlace(height, width, draws, &part);
    return part;
  }
  return std::nullopt;
}

}  // namespace crema
