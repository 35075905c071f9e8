#include "data/augment/random_part.h"

#include <algorithm>
#include <cmath>

#include "crema.pb.h"

namespace crema {
namespace {

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
