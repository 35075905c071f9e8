#include "data/transform/transformer.h"

#include <algorithm>
#include <cstddef>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/image/pixel_kernels.h"

namespace crema {

Transformer::Transformer(const TransformationParameter& param, Phase phase,
                         const std::string& layer, TransformSteps steps)
    : param_(param),
      phase_(phase),
      crop_height_(param.crop_size() > 0 ? param.crop_size() : param.crop_h()),
      crop_width_(param.crop_size() > 0 ? param.crop_size() : param.crop_w()) {
  ValidateTransform(param, layer, steps);
  if (!param.has_mean_file()) return;
  try {
    mean_ = ReadMeanImage(param.mean_file());
  } catch (const Error& error) {
    Where where{.layer = layer};
    where.field = "transform_param.mean_file";
    Fail(error.code(), error.problems().front().message, std::move(where));
  }
}

std::optional<Transformer::Misfit> Transformer::FindMisfit(const Shape& image) const {
  const bool too_small = crop_height_ > image[1] || crop_width_ > image[2];
  if (too_small && !param_.augment_param().has_resized_crop()) {
    const bool square = param_.crop_size() > 0;
    return Misfit{square ? "transform_param.crop_size" : "transform_param.crop_h",
                  StrCat(square ? StrCat("crop_size is ", crop_height_)
                                : StrCat("crop_h is ", crop_height_, " and crop_w ", crop_width_),
                         ", but the image is ", image[1], " high and ", image[2], " wide")};
  }
  if (mean_ && mean_->shape != image) {
    return Misfit{"transform_param.mean_file",
                  StrCat("the mean image '", param_.mean_file(), "' is ", ToString(mean_->shape),
                         ", but the image (before cropping) is ", ToString(image))};
  }
  const int means = param_.mean_value_size();
  if (means > 1 && means != image[0]) {
    return Misfit{"transform_param.mean_value",
                  StrCat("there are ", means, " entries of mean_value, but the image has ",
                         image[0], " channels: give one, or one each")};
  }
  return std::nullopt;
}

Shape Transformer::OutputShape(const Shape& image) const {
  return crop_height_ == 0 ? image : Shape{image[0], crop_height_, crop_width_};
}

ColorMode Transformer::color_mode() const {
  if (param_.force_color()) return ColorMode::kColor;
  return param_.force_gray() ? ColorMode::kGray : ColorMode::kAsStored;
}

RandomStream Transformer::SampleStream(uint64_t seed, uint64_t layer_id, uint64_t ordinal) {
  return RandomStream(seed, MixBits(layer_id, HashName("transform")), ordinal);
}

Transformer::Placement Transformer::Place(const PixelView& image,
                                          const RandomStream& random) const {
  Placement place{.height = image.height, .width = image.width};
  place.mirror = param_.mirror() && random.Below(0, 2) == 1;
  if (crop_height_ == 0) return place;
  place.height = static_cast<int>(crop_height_);
  place.width = static_cast<int>(crop_width_);
  const int spare_rows = image.height - place.height;
  const int spare_columns = image.width - place.width;
  if (phase_ == TRAIN) {
    place.top = static_cast<int>(random.Below(1, static_cast<uint32_t>(spare_rows) + 1));
    place.left = static_cast<int>(random.Below(2, static_cast<uint32_t>(spare_columns) + 1));
  } else {
    place.top = spare_rows / 2;
    place.left = spare_columns / 2;
  }
  return place;
}

template <typename T>
T Transformer::MeanValue(int channel) const {
  const int means = param_.mean_value_size();
  return means == 0 ? T{0} : static_cast<T>(param_.mean_value(means == 1 ? 0 : channel));
}

template <typename S, typename T>
void Transformer::ApplyTyped(const S* pixels, const PixelView& image, const Placement& place,
                             T* out) const {
  const ptrdiff_t plane_size = static_cast<ptrdiff_t>(image.height) * image.width;
  const ptrdiff_t origin = static_cast<ptrdiff_t>(place.top) * image.width + place.left;
  PlaneRows<S, T> plane{.pixels = pixels + origin,
                        .mean = mean_ ? mean_->values.data() + origin : nullptr,
                        .stride = image.width,
                        .mean_value = 0,
                        .scale = static_cast<T>(param_.scale()),
                        .height = place.height,
                        .width = place.width,
                        .mirror = place.mirror,
                        .out = out};
  for (int c = 0; c < image.channels; ++c) {
    plane.mean_value = MeanValue<T>(c);
    ConvertPlane(plane);
    plane.pixels += plane_size;
    if (plane.mean != nullptr) plane.mean += plane_size;
    plane.out += static_cast<ptrdiff_t>(place.height) * place.width;
  }
}

template <typename T>
void Transformer::ApplyAt(const PixelView& image, const Placement& place, T* out) const {
  if (image.bytes != nullptr) {
    ApplyTyped(image.bytes, image, place, out);
  } else {
    ApplyTyped(image.floats, image, place, out);
  }
}

template <>
void Transformer::ApplyAt(const PixelView& image, const Placement& place, uint8_t* out) const {
  CREMA_CHECK(image.bytes != nullptr);
  const ptrdiff_t origin = static_cast<ptrdiff_t>(place.top) * image.width + place.left;
  CopyBytes({.pixels = image.bytes + origin,
             .row_bytes = image.width,
             .plane = static_cast<ptrdiff_t>(image.height) * image.width,
             .channels = image.channels,
             .height = place.height,
             .width = place.width,
             .mirror = place.mirror,
             .out = out});
}

template void Transformer::ApplyAt(const PixelView&, const Placement&, float*) const;
template void Transformer::ApplyAt(const PixelView&, const Placement&, double*) const;

template <typename T>
void Transformer::ApplyPacked(const PackedView& part, const Placement& place, T* out) const {
  PackedRows<T> rows{.pixels = part.pixels,
                     .row_bytes = part.row_bytes,
                     .channels = part.channels,
                     .mean = nullptr,
                     .mean_stride = 0,
                     .mean_plane = 0,
                     .mean_values = {},
                     .scale = static_cast<T>(param_.scale()),
                     .height = place.height,
                     .width = place.width,
                     .mirror = place.mirror,
                     .out = out};
  if (mean_) {
    rows.mean_stride = static_cast<ptrdiff_t>(mean_->shape[2]);
    rows.mean_plane = static_cast<ptrdiff_t>(mean_->shape.count(1));
    rows.mean = mean_->values.data() + place.top * rows.mean_stride + place.left;
  }
  for (int c = 0; c < part.channels; ++c) rows.mean_values[c] = MeanValue<T>(c);
  ConvertPacked(rows);
}

template <>
void Transformer::ApplyPacked(const PackedView& part, const Placement& place, uint8_t* out) const {
  CopyBytes({.pixels = part.pixels,
             .row_bytes = part.row_bytes,
             .plane = 0,
             .channels = part.channels,
             .height = place.height,
             .width = place.width,
             .mirror = place.mirror,
             .out = out});
}

template void Transformer::ApplyPacked(const PackedView&, const Placement&, float*) const;
template void Transformer::ApplyPacked(const PackedView&, const Placement&, double*) const;

float Transformer::ChannelMean(int channel) const {
  const int means = param_.mean_value_size();
  if (means > 0) return param_.mean_value(means == 1 ? 0 : std::min(channel, means - 1));
  if (!mean_ || channel >= mean_->shape[0]) return 0;
  const auto plane = static_cast<size_t>(mean_->shape.count(1));
  const float* first = mean_->values.data() + plane * static_cast<size_t>(channel);
  double sum = 0;
  for (size_t i = 0; i < plane; ++i) sum += first[i];
  return static_cast<float>(sum / static_cast<double>(plane));
}

}  // namespace crema
