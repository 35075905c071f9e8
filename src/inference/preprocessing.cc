#include "inference/preprocessing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

constexpr int64_t kMostResizedPixels = int64_t{1} << 26;
constexpr std::array<const char*, 4> kFits = {"stretch", "crop", "letterbox", "reshape"};
constexpr std::array<const char*, 7> kInterpolations = {
    "linear", "area", "nearest", "cubic", "lanczos", "antialias", "antialias_cubic"};

template <size_t n>
size_t IndexOf(const std::array<const char*, n>& words, const std::string& word, const char* what) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("unknown ", what, " '", word, "'; use ",
                Join(std::vector<std::string>(words.begin(), words.end()), ", ")));
  }
  return static_cast<size_t>(found - words.begin());
}

bool IsAntialiased(Interpolation how) {
  return how == Interpolation::kAntialias || how == Interpolation::kAntialiasCubic;
}

// Returns the offset of a crop in the middle.
int MiddleOf(int whole, int part, Interpolation how) {
  const int margin = whole - part;
  if (!IsAntialiased(how)) return margin / 2;
  return static_cast<int>(std::nearbyint(margin / 2.0));
}

void RefuseNarrow(int64_t image_height, int64_t image_width, int64_t rows, int64_t columns) {
  if (rows * columns <= kMostResizedPixels) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("an image of ", image_width, "x", image_height, " would be resized to ", columns, "x",
              rows, ": it is too narrow"));
}

void SetCropSize(const Preprocessing& p, int64_t image_height, int64_t image_width, int height,
                 int width, ImagePlacement* place) {
  if (p.resize_height > 0) {
    place->height = p.resize_height;
    place->width = p.resize_width;
    return;
  }
  int64_t rows = 0, columns = 0;
  if (p.short_side > 0) {
    const int64_t least = std::min(image_height, image_width);
    rows = image_height * p.short_side / least;
    columns = image_width * p.short_side / least;
  } else if (height * image_width >= width * image_height) {  // the height decides
    rows = height;
    columns =
        std::llround(static_cast<double>(image_width * height) / static_cast<double>(image_height));
  } else {
    rows =
        std::llround(static_cast<double>(image_height * width) / static_cast<double>(image_width));
    columns = width;
  }
  RefuseNarrow(image_height, image_width, rows, columns);
  place->height = static_cast<int>(rows);
  place->width = static_cast<int>(columns);
}

// As _get_image_blob of py-faster-rcnn.
void SetReshapedSize(const Preprocessing& p, int image_height, int image_width,
                     ImagePlacement* place) {
  const double least = std::min(image_height, image_width);
  const double most = std::max(image_height, image_width);
  double scale = std::max(p.short_side, p.resize_height) / least;
  if (p.resize_width > 0 && std::nearbyint(scale * most) > p.resize_width) {
    scale = p.resize_width / most;
  }
  const auto side = [&](int of_image) {
    return std::max<int64_t>(1, std::llrint(of_image * scale));
  };
  RefuseNarrow(image_height, image_width, side(image_height), side(image_width));
  place->height = static_cast<int>(side(image_height));
  place->width = static_cast<int>(side(image_width));
  place->scale = scale;
}

void SetLetterboxSize(int64_t image_height, int64_t image_width, int64_t height, int64_t width,
                      ImagePlacement* place) {
  if (height * image_width <= width * image_height) {  // the height decides
    place->height = static_cast<int>(height);
    place->width = static_cast<int>(std::max<int64_t>(1, image_width * height / image_height));
  } else {
    place->width = static_cast<int>(width);
    place->height = static_cast<int>(std::max<int64_t>(1, image_height * width / image_width));
  }
}

// Copies the part of `resized` that lies in the input.
void CopyPlaced(const Image& resized, const ImagePlacement& place, Image* fitted) {
  const int first_row = std::max(0, place.top);
  const int last_row = std::min(fitted->height, place.top + place.height);
  const int first = std::max(0, place.left);
  const int last = std::min(fitted->width, place.left + place.width);
  const auto from_plane = static_cast<int64_t>(resized.height) * resized.width;
  const auto to_plane = static_cast<int64_t>(fitted->height) * fitted->width;
  for (int64_t c = 0; c < resized.channels; ++c) {
    for (int64_t row = first_row; row < last_row; ++row) {
      const auto from = resized.pixels.begin() + c * from_plane +
                        (row - place.top) * resized.width + (first - place.left);
      std::copy(from, from + (last - first),
                fitted->pixels.begin() + c * to_plane + row * fitted->width + first);
    }
  }
}

AxisMap MapOf(int first, int length, int whole) {
  return {.offset = static_cast<double>(first) / whole,
          .factor = static_cast<double>(whole) / length};
}

std::string FindReshapeProblem(const Preprocessing& p, bool can_reshape) {
  if (!can_reshape) {
    return "the fit 'reshape' needs a net that takes the size of the image as an input, which a "
           "layer Proposal reads";
  }
  const int least = std::max(p.short_side, p.resize_height);
  const bool fits = least > 0 && least <= kMaxResizedSide && p.resize_width <= kMaxResizedSide &&
                    (p.resize_height == 0 || p.resize_width >= p.resize_height);
  if (fits) return "";
  return StrCat(
      "the fit 'reshape' needs a resize of the short side, or of the short side and the "
      "largest long side (600x1000), from 1 to ",
      kMaxResizedSide);
}

}  // namespace

std::string FindPreprocessingProblem(const Preprocessing& p, const Shape& input, bool can_reshape) {
  const auto channels = static_cast<size_t>(input[0]);
  const size_t mean = p.mean.size();
  if (mean != 0 && mean != channels && mean != static_cast<size_t>(input.count())) {
    return StrCat("the mean has ", mean, " numbers, but the input is ", ToString(input));
  }
  if (!std::isfinite(p.scale) || p.scale == 0) {
    return StrCat("the scale is ", p.scale, "; use a finite number other than 0");
  }
  if (!std::ranges::all_of(p.mean, [](float v) { return std::isfinite(v); })) {
    return "a mean is not finite";
  }
  if (p.fit == ImageFit::kReshape && mean > channels) {
    return StrCat(
        "a mean image has one size, but the fit 'reshape' gives each image a size of its "
        "own; give ",
        channels, " means of channels");
  }
  if (!p.deviation.empty() && p.deviation.size() != channels) {
    return StrCat("the standard deviation has ", p.deviation.size(), " numbers for ", channels,
                  " channels");
  }
  for (const float value : p.deviation) {
    if (!(value > 0) || !std::isfinite(value)) {
      return StrCat("a standard deviation (std) is ", value, "; use numbers above 0");
    }
  }
  if (!(p.range > 0) || !std::isfinite(p.range)) {
    return StrCat("the largest pixel value (pixel_range) is ", p.range, "; use a number above 0");
  }
  if (p.pad < 0 || p.pad > 255) return StrCat("the padding is ", p.pad, ", not 0 to 255");
  if (p.ten_crops && p.fit != ImageFit::kCrop) {
    return "ten crops (ten_crops) need the fit 'crop', with a size before it (resize) above that "
           "of "
           "the input";
  }
  const bool by_size = p.resize_height != 0 || p.resize_width != 0;
  const bool sized = p.short_side != 0 || by_size;
  if (by_size && p.short_side != 0)
    return "the short side and the size before the crop exclude "
           "each other";
  if (p.fit == ImageFit::kReshape) return FindReshapeProblem(p, can_reshape);
  if (!sized) return "";
  if (p.fit != ImageFit::kCrop) return "a size before the crop needs the fit 'crop'";
  const int height = by_size ? p.resize_height : p.short_side;
  const int width = by_size ? p.resize_width : p.short_side;
  if (height < input[1] || width < input[2] || height > kMaxResizedSide ||
      width > kMaxResizedSide) {
    return StrCat("images are resized to ", by_size ? StrCat(height, "x", width) : StrCat(height),
                  " before the crop, which must be from ", input[1], "x", input[2], " to ",
                  kMaxResizedSide);
  }
  if (int64_t{height} * width > kMostResizedPixels) {
    return StrCat("images are resized to ", height, "x", width,
                  " before the crop, which is more than ", kMostResizedPixels, " pixels");
  }
  return "";
}

float PreprocessedValue(const Preprocessing& p, float pixel, size_t channel, size_t channels,
                        size_t element) {
  float value = p.invert ? 255 - pixel : pixel;
  if (p.range != 255) value = value * p.range / 255;
  if (!p.mean.empty()) value -= p.mean[p.mean.size() == channels ? channel : element];
  value *= p.scale;
  return p.deviation.empty() ? value : value / p.deviation[channel];
}

ImagePlacement PlaceImage(const Preprocessing& p, int image_height, int image_width, int height,
                          int width) {
  ImagePlacement place{.height = height, .width = width};
  if (p.fit == ImageFit::kReshape) {
    SetReshapedSize(p, image_height, image_width, &place);
    place.input_height = place.height;
    place.input_width = place.width;
    return place;
  }
  if (p.fit == ImageFit::kCrop) {
    SetCropSize(p, image_height, image_width, height, width, &place);
    place.top = -MiddleOf(place.height, height, p.interpolation);
    place.left = -MiddleOf(place.width, width, p.interpolation);
  } else if (p.fit == ImageFit::kLetterbox) {
    SetLetterboxSize(image_height, image_width, height, width, &place);
    place.top = (height - place.height) / 2;
    place.left = (width - place.width) / 2;
  }
  place.input_height = height;
  place.input_width = width;
  place.scale = static_cast<double>(place.height) / image_height;
  return place;
}

Image FitImage(const Image& image, const Preprocessing& p, int height, int width) {
  const ImagePlacement place = PlaceImage(p, image.height, image.width, height, width);
  const bool keeps = image.height == place.height && image.width == place.width;
  Image resized = keeps ? image : Resize(image, place.height, place.width, p.interpolation);
  if (place.height == height && place.width == width) return resized;
  Image fitted{.channels = image.channels, .height = height, .width = width, .pixels = {}};
  const auto pixels = static_cast<size_t>(image.channels) * static_cast<size_t>(height) *
                      static_cast<size_t>(width);
  fitted.pixels.assign(pixels, static_cast<uint8_t>(p.pad));
  CopyPlaced(resized, place, &fitted);
  return fitted;
}

std::vector<Image> TenCrops(const Image& image, const Preprocessing& p, int height, int width) {
  CREMA_CHECK(p.fit == ImageFit::kCrop);
  ImagePlacement place = PlaceImage(p, image.height, image.width, height, width);
  const Image resized = Resize(image, place.height, place.width, p.interpolation);
  const int bottom = height - place.height;
  const int right = width - place.width;
  const std::pair<int, int> corners[] = {
      {place.top, place.left}, {0, 0}, {0, right}, {bottom, 0}, {bottom, right}};
  std::vector<Image> crops;
  for (const auto& [top, left] : corners) {
    Image crop{.channels = image.channels, .height = height, .width = width, .pixels = {}};
    crop.pixels.resize(static_cast<size_t>(image.channels) * static_cast<size_t>(height) *
                       static_cast<size_t>(width));
    place.top = top;
    place.left = left;
    CopyPlaced(resized, place, &crop);
    crops.push_back(std::move(crop));
  }
  for (size_t i = 0; i < std::size(corners); ++i) {
    Image mirrored = crops[i];
    for (auto row = mirrored.pixels.begin(); row != mirrored.pixels.end(); row += width) {
      std::reverse(row, row + width);
    }
    crops.push_back(std::move(mirrored));
  }
  return crops;
}

AxisMap RowsOfImage(const ImagePlacement& placement, int height) {
  return MapOf(placement.top, placement.height, height);
}

AxisMap ColumnsOfImage(const ImagePlacement& placement, int width) {
  return MapOf(placement.left, placement.width, width);
}

ImageFit ParseFit(const std::string& word) {
  return static_cast<ImageFit>(IndexOf(kFits, word, "fit"));
}

Interpolation ParseInterpolation(const std::string& word) {
  return static_cast<Interpolation>(IndexOf(kInterpolations, word, "interpolation"));
}

const char* ToString(ImageFit fit) { return kFits[static_cast<size_t>(fit)]; }

const char* ToString(Interpolation interpolation) {
  return kInterpolations[static_cast<size_t>(interpolation)];
}

}  // namespace crema
