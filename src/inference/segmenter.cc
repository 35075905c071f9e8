#include "inference/segmenter.h"

#include <algorithm>
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

}  // namespace

Segmenter::Segmenter(std::shared_ptr<const Model> model, const std::string& output)
    : model_(std::move(model), "segmentation"), output_(model_.FindOutput(output)) {
  constexpr int64_t kMostClasses = 256;  // one byte per pixel
  const Shape scores = model_.OutputShape(output_, 1);
  if (scores.axes() != 4 || scores[0] != 1 || scores[1] < 2 || scores[1] > kMostClasses ||
      scores.count() == 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("segmentation needs scores of N x classes x H x W, 2 to ", kMostClasses,
                " classes; '", output_, "' is ", ToString(scores), " for one image"));
  }
  classes_ = static_cast<int>(scores[1]);
}

Segmenter::Worker::Worker(const Segmenter& segmenter, const Preprocessing& preprocessing)
    : segmenter_(segmenter), runner_(segmenter.model_, preprocessing) {}

std::vector<Image> Segmenter::Worker::Segment(std::span<const Image> images) {
  runner_.RunBySample(images);
  const ConstTensorView scores = runner_.Output(segmenter_.output_);
  const auto sample = static_cast<size_t>(scores.shape().count(1));
  std::vector<Image> classes;
  for (size_t i = 0; i < images.size(); ++i) {
    classes.push_back(BestOfEachPixel(scores.data<float>() + i * sample, scores.shape()[1],
                                      static_cast<int>(scores.shape()[2]),
                                      static_cast<int>(scores.shape()[3])));
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
