#include "inference/segmenter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

Image BestOfEachPixel(const float* scores, int64_t classes, int height, int width) {
  const auto plane = static_cast<size_t>(height) * static_cast<size_t>(width);
  Image best{.channels = 1, .height = height, .width = width, .pixels = {}};
  best.pixels.assign(plane, 0);
  std::vector<float> most(scores, scores + plane);
  for (int64_t c = 1; c < classes; ++c) {
    const float* of_class = scores + static_cast<size_t>(c) * plane;
    for (size_t i = 0; i < plane; ++i) {
      if (!(of_class[i] > most[i])) continue;
      most[i] = of_class[i];
      best.pixels[i] = static_cast<uint8_t>(c);
    }
  }
  return best;
}

// Returns the classes without the bars of a letterbox.
Image WithoutBars(const Image& classes, const ImagePlacement& place, int height, int width) {
  const auto position = [](int at, int from, int to) {
    return static_cast<int>(std::lround(static_cast<double>(at) * to / from));
  };
  const int top = position(place.top, height, classes.height);
  const int left = position(place.left, width, classes.width);
  const int bottom = std::max(top + 1, position(place.top + place.height, height, classes.height));
  const int right = std::max(left + 1, position(place.left + place.width, width, classes.width));
  Image inner{.channels = 1, .height = bottom - top, .width = right - left, .pixels = {}};
  for (int row = top; row < bottom; ++row) {
    const auto from = classes.pixels.begin() + int64_t{row} * classes.width + left;
    inner.pixels.insert(inner.pixels.end(), from, from + inner.width);
  }
  return inner;
}

}  // namespace

Segmenter::Segmenter(std::shared_ptr<const Model> model, const std::string& output)
    : model_(std::move(model), "segmentation"), output_(model_.FindOutput(output)) {
  constexpr int64_t kMostClasses = 256;  // one byte per pixel
  if (!model_.sizes_input().empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("segmentation takes nets of one size; this one has the input '",
                model_.sizes_input(), "' for the size of the image, as detectors have"));
  }
  const Shape scores = model_.OutputShape(output_, 1);
  if (scores.axes() != 4 || scores[0] != 1 || scores[1] < 2 || scores[1] > kMostClasses ||
      scores.count() == 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("segmentation needs scores of N x classes x H x W, 2 to ", kMostClasses,
                " classes; '", output_, "' is ", ToString(scores), " for one image"));
  }
  classes_ = static_cast<int>(scores[1]);
}

Image Segmenter::ClassesOf(const ConstTensorView& scores, int64_t sample,
                           const ImagePlacement& place) const {
  const auto count = static_cast<size_t>(scores.shape().count(1));
  Image classes =
      BestOfEachPixel(scores.data<float>() + static_cast<size_t>(sample) * count, scores.shape()[1],
                      static_cast<int>(scores.shape()[2]), static_cast<int>(scores.shape()[3]));
  const bool whole = place.height == model_.height() && place.width == model_.width();
  return whole ? classes : WithoutBars(classes, place, model_.height(), model_.width());
}

void RefuseCrop(const Preprocessing& preprocessing) {
  if (preprocessing.fit != ImageFit::kCrop) return;
  Fail(ErrorCode::kInvalidArgument,
       "segmentation cannot crop images, as parts of them would have no class; use --fit=stretch "
       "or --fit=letterbox");
}

Segmenter::Worker::Worker(const Segmenter& segmenter, const Preprocessing& preprocessing)
    : segmenter_(segmenter), runner_(segmenter.model_, preprocessing) {
  RefuseCrop(preprocessing);
}

std::vector<Image> Segmenter::Worker::Segment(std::span<const Image> images) {
  runner_.RunBySample(images);
  const ConstTensorView scores = runner_.Output(segmenter_.output_);
  std::vector<Image> classes;
  for (size_t i = 0; i < images.size(); ++i) {
    classes.push_back(
        segmenter_.ClassesOf(scores, static_cast<int64_t>(i), runner_.Place(images[i])));
  }
  return classes;
}

std::vector<ClassShare> SharesOf(const Image& classes, int class_count) {
  std::vector<double> counts(static_cast<size_t>(class_count));
  for (const uint8_t pixel : classes.pixels) counts[pixel] += 1;
  std::vector<ClassShare> shares;
  for (size_t c = 0; c < counts.size(); ++c) {
    const double share = counts[c] / static_cast<double>(classes.pixels.size());
    if (share > 0) shares.push_back({static_cast<int>(c), share});
  }
  std::ranges::stable_sort(shares, std::ranges::greater{}, &ClassShare::share);
  return shares;
}

}  // namespace crema
