#include "common/preprocessing_flags.h"

#include <gflags/gflags.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"
#include "inference/image_input.h"

DEFINE_string(mean, "",
              "[Input FILE|NUMBERS] mean to subtract: a binaryproto file, or one number a channel "
              "with commas");
DEFINE_double(scale, 1, "[Input] factor on (pixel - mean)");
DEFINE_string(
    std, "",
    "[Input NUMBERS] divide each channel by its number, after --scale; numbers with commas");
DEFINE_double(pixel_range, 255,
              "[Input] largest pixel value before --mean: 1 for means such as 0.485,0.456,0.406");
DEFINE_bool(invert, false, "[Input] take 255 - pixel: dark on light becomes light on dark");
DEFINE_bool(rgb, false, "[Input] the net takes red, green, blue instead of blue, green, red");
DEFINE_string(
    fit, "stretch",
    "[Input stretch|crop|letterbox|reshape] how images get the size of the input: stretch; "
    "crop, the part in the middle; letterbox, the whole with bars; reshape, the input gets "
    "the size of --resize (Faster R-CNN)");
DEFINE_string(
    resize, "",
    "[Input SIZE] size before the crop: the short side (256), or height x width (256x256); "
    "implies --fit=crop. With --fit=reshape: the short side, and the longest long side (600x1000)");
DEFINE_string(
    interpolation, "linear",
    "[Input KIND] linear, area, nearest, cubic, lanczos: as OpenCV; antialias, antialias_cubic: as "
    "Pillow and torchvision");
DEFINE_bool(ten_crops, false,
            "[Input] classes are those of the mean of the scores of ten crops: the "
            "corners, the middle, and their mirror images; needs --fit=crop");
DEFINE_int32(pad, 114, "[Input] pixel value of the bars of --fit=letterbox");

namespace crema::tools {
namespace {

std::vector<float> Numbers(const char* flag, const std::string& text, const Shape* input,
                           const char* expected) {
  std::vector<float> numbers;
  for (const std::string& part : Split(text, ',')) {
    char* end = nullptr;
    numbers.push_back(std::strtof(part.c_str(), &end));
    if (part.empty() || *end != '\0' || !std::isfinite(numbers.back())) {
      Fail(ErrorCode::kInvalidArgument, StrCat("--", flag, ": '", text, "' is ", expected));
    }
  }
  if (input == nullptr) return numbers;
  const auto channels = static_cast<size_t>((*input)[0]);
  if (numbers.size() == 1) numbers.resize(channels, numbers[0]);
  if (numbers.size() != channels) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--", flag, " has ", numbers.size(), " numbers for ", channels, " channels"));
  }
  return numbers;
}

std::vector<float> MeanOfFlag(const Shape* input) {
  if (FLAGS_mean.empty()) return {};
  std::error_code error;
  const bool is_file = std::filesystem::exists(FLAGS_mean, error);
  if (is_file && input != nullptr) return ReadMean(FLAGS_mean, *input);
  return Numbers(
      "mean", FLAGS_mean, input,
      input != nullptr ? "neither a file nor numbers with commas" : "not numbers with commas");
}

std::optional<int> SideOf(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

void SetResize(Preprocessing* p) {
  p->short_side = p->resize_height = p->resize_width = 0;
  if (FLAGS_resize.empty()) return;
  const std::vector<std::string> sides = Split(FLAGS_resize, 'x');
  const std::optional<int> first = SideOf(sides[0]);
  const std::optional<int> second = sides.size() == 2 ? SideOf(sides[1]) : std::nullopt;
  if (!first || sides.size() > 2 || (sides.size() == 2 && !second)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--resize: '", FLAGS_resize,
                "' is neither a side (256) nor height x width (256x256)"));
  }
  if (second) {
    p->resize_height = *first;
    p->resize_width = *second;
  } else {
    p->short_side = *first;
  }
  if (!IsGiven("fit") && p->fit != ImageFit::kReshape) p->fit = ImageFit::kCrop;
}

void SetFit(Preprocessing* p) {
  if (IsGiven("interpolation")) p->interpolation = ParseInterpolation(FLAGS_interpolation);
  if (IsGiven("pad")) p->pad = FLAGS_pad;
  if (IsGiven("ten_crops")) p->ten_crops = FLAGS_ten_crops;
  if (IsGiven("fit")) {
    const ImageFit before = std::exchange(p->fit, ParseFit(FLAGS_fit));
    if (p->fit != before) p->short_side = p->resize_height = p->resize_width = 0;
  }
  if (IsGiven("resize")) SetResize(p);
}

}  // namespace

const std::vector<std::string>& PreprocessingFlags() {
  static const std::vector<std::string> flags = {
      "mean", "scale",  "std",           "pixel_range", "invert",   "rgb",
      "fit",  "resize", "interpolation", "pad",         "ten_crops"};
  return flags;
}

void SetPreprocessingOfFlags(const Shape* input, Preprocessing* preprocessing) {
  if (!std::isfinite(FLAGS_scale) || std::abs(FLAGS_scale) > 1e30 || FLAGS_scale == 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--scale is ", FLAGS_scale, "; use a finite number other than 0"));
  }
  if (IsGiven("invert")) preprocessing->invert = FLAGS_invert;
  if (IsGiven("scale")) preprocessing->scale = static_cast<float>(FLAGS_scale);
  if (IsGiven("mean")) preprocessing->mean = MeanOfFlag(input);
  if (IsGiven("rgb")) preprocessing->rgb = FLAGS_rgb;
  if (IsGiven("pixel_range")) preprocessing->range = static_cast<float>(FLAGS_pixel_range);
  if (IsGiven("std")) {
    preprocessing->deviation = FLAGS_std.empty()
                                   ? std::vector<float>()
                                   : Numbers("std", FLAGS_std, input, "not numbers with commas");
  }
  SetFit(preprocessing);
}

}  // namespace crema::tools
