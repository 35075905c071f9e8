#include "common/sample_picture.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "crema.pb.h"
#include "data/transform/transformer.h"
#include "runtime/session.h"

namespace crema::tools {
namespace {

constexpr int kMostSide = 128;

bool IsImages(const Plan& plan, const PlannedLayer& layer) {
  if (!layer.inputs.empty() || layer.outputs.empty()) return false;
  const BlobSpec& spec = plan.values[static_cast<size_t>(layer.outputs[0])].spec;
  if (spec.shape.axes() != 4 || spec.shape.count() == 0) return false;
  const int64_t channels = spec.shape[spec.dtype == DType::kU8 ? 3 : 1];
  return channels == 1 || channels == 3 || channels == 4;
}

// Returns the channels that are drawn: a fourth one is a label map, not a transparency.
size_t ShownOf(size_t channels) { return channels == 1 ? 1 : 3; }

uint8_t Byte(float value) {
  return std::isfinite(value) ? static_cast<uint8_t>(std::clamp(value + 0.5F, 0.0F, 255.0F)) : 0;
}

// Stretches the contrast of values that are not image bytes (features, whitened images).
void StretchIfNeeded(std::span<float> pixels) {
  const auto [least, most] = std::ranges::minmax(pixels);
  const bool bytes = least > -2 && most < 257 && most > 1;
  if (bytes) return;
  const float range = most > least ? most - least : 1;
  const float low = least;
  for (float& pixel : pixels) pixel = (pixel - low) / range * 255;
}

// Mean of one channel over a square, clipped to the picture.
uint8_t BlockMean(const Picture& picture, int left, int top, int side, int channel) {
  int64_t sum = 0;
  int64_t pixels = 0;
  for (int64_t y = top; y < std::min(picture.height, top + side); ++y) {
    for (int64_t x = left; x < std::min(picture.width, left + side); ++x) {
      sum += picture.pixels[static_cast<size_t>((y * picture.width + x) * picture.channels) +
                            static_cast<size_t>(channel)];
      ++pixels;
    }
  }
  return static_cast<uint8_t>(sum / std::max<int64_t>(1, pixels));
}

}  // namespace

SamplePicture::SamplePicture(const Plan& plan, int data_layer) {
  const PlannedLayer* source = nullptr;
  if (data_layer >= 0 && IsImages(plan, plan.layers[static_cast<size_t>(data_layer)])) {
    source = &plan.layers[static_cast<size_t>(data_layer)];
  }
  for (const PlannedLayer& layer : plan.layers) {
    if (source == nullptr && IsImages(plan, layer)) source = &layer;
  }
  if (source == nullptr) return;
  const PlannedValue& value = plan.values[static_cast<size_t>(source->outputs[0])];
  blob_ = value.name;
  value_ = source->outputs[0];
  layer_ = static_cast<int>(source - plan.layers.data());
  if (value.spec.dtype == DType::kU8) return;  // not normalized
  const TransformationParameter& param = source->layer->param().transform_param();
  if (param.scale() != 0) scale_ = param.scale();
  const Transformer transformer(param, TEST, source->name(), TransformSteps::kAnnotated);
  for (int c = 0; c < value.spec.shape[1]; ++c) means_.push_back(transformer.ChannelMean(c));
}

Picture SamplePicture::Bytes(const ConstTensorView& blob, int64_t index) {
  const auto channels = static_cast<size_t>(blob.shape()[3]);
  const size_t shown = ShownOf(channels);
  const auto count = static_cast<size_t>(blob.shape().count(1));
  const auto own = blob.span<uint8_t>().subspan(static_cast<size_t>(index) * count, count);
  Picture picture{.width = static_cast<int>(blob.shape()[2]),
                  .height = static_cast<int>(blob.shape()[1]),
                  .channels = static_cast<int>(shown),
                  .pixels = {}};
  for (size_t i = 0; i < count; i += channels) {
    for (size_t c = shown; c-- > 0;) picture.pixels.push_back(own[i + c]);  // BGR to RGB
  }
  return picture;
}

Picture SamplePicture::Pixels(const Session& session, int64_t index) const {
  const HostView view(session, session.DataOf(value_));
  const ConstTensorView& blob = *view;
  if (blob.dtype() == DType::kU8) return Bytes(blob, index);
  const auto count = static_cast<size_t>(blob.shape().count(1));
  const size_t shown = ShownOf(means_.size());
  const size_t plane = count / means_.size();
  const std::span<const float> own =
      blob.span<float>().subspan(static_cast<size_t>(index) * count, shown * plane);
  Picture picture{.width = static_cast<int>(blob.shape()[3]),
                  .height = static_cast<int>(blob.shape()[2]),
                  .channels = static_cast<int>(shown),
                  .pixels = std::vector<uint8_t>(own.size())};
  std::vector<float> pixels(own.begin(), own.end());
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = pixels[i] / scale_ + means_[i / plane];
  StretchIfNeeded(pixels);
  for (size_t i = 0; i < pixels.size(); ++i) {
    const size_t channel = shown - 1 - i / plane;  // BGR to RGB
    picture.pixels[i % plane * shown + channel] = Byte(pixels[i]);
  }
  return picture;
}

std::string SamplePicture::Png(const Session& session, int64_t index) const {
  return EncodePng(Shrink(Pixels(session, index), kMostSide));
}

Picture Shrink(const Picture& picture, int side) {
  const int longest = std::max(picture.width, picture.height);
  if (longest <= side) return picture;
  const int block = (longest + side - 1) / side;
  Picture small{.width = std::max(1, picture.width / block),
                .height = std::max(1, picture.height / block),
                .channels = picture.channels,
                .pixels = {}};
  for (int y = 0; y < small.height; ++y) {
    for (int x = 0; x < small.width; ++x) {
      for (int c = 0; c < picture.channels; ++c) {
        small.pixels.push_back(BlockMean(picture, x * block, y * block, block, c));
      }
    }
  }
  return small;
}

}  // namespace crema::tools
