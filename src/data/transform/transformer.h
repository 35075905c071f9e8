// transform_param: converts the pixels of a record to the input of a net.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rng.h"
#include "core/shape.h"
#include "crema.pb.h"
#include "data/image/image.h"

namespace crema {

// Steps of transform_param that a layer supports.
enum class TransformSteps {
  kPlain,      // the steps of Transformer
  kAugmented,  // also augment_param, which BatchFiller applies
  kAnnotated,  // also the steps of SSD that need boxes: see augment/
};

// Throws Error with where.layer and where.field: conflicting fields or values out of range
// (kInvalidArgument), steps that this layer or build does not support (kUnsupported).
void ValidateTransform(const TransformationParameter& param, const std::string& layer,
                       TransformSteps steps = TransformSteps::kPlain);

// A mean image from a BlobProto file.
struct MeanImage {
  Shape shape;  // C x H x W
  std::vector<float> values;
};

// Throws kNotFound, kIoFailure, or kDataLoss if `path` is not a BlobProto of one image.
MeanImage ReadMeanImage(const std::string& path);

// Crops, subtracts the mean, scales and mirrors, in Caffe's order: output(c, y, x or mirrored) =
// (pixel(c, y + top, x + left) - mean) * scale. The mean image is read at the uncropped, unmirrored
// place. Crops are random in TRAIN and centred in TEST; mirroring is random in both. Thread safety:
// const, any number of threads.
class Transformer {
 public:
  // Reads mean_file. Errors name `layer`; also throws what ValidateTransform throws.
  Transformer(const TransformationParameter& param, Phase phase, const std::string& layer,
              TransformSteps steps = TransformSteps::kPlain);

  struct Misfit {
    std::string field;  // "transform_param.crop_size"
    std::string message;
  };
  // Returns why images of this size (C x H x W) cannot be transformed; nothing if they can.
  // resized_crop accepts any size: SampleAugmenter reduces it to the crop first.
  std::optional<Misfit> FindMisfit(const Shape& image) const;
  Shape OutputShape(const Shape& image) const;
  ColorMode color_mode() const;
  const TransformationParameter& param() const { return param_; }
  Phase phase() const { return phase_; }
  int crop_height() const { return static_cast<int>(crop_height_); }  // 0: no crop
  int crop_width() const { return static_cast<int>(crop_width_); }

  // Returns the random stream of one sample. `ordinal` counts samples and never restarts, so that
  // each epoch has its own draws.
  static RandomStream SampleStream(uint64_t seed, uint64_t layer_id, uint64_t ordinal);

  // The cropped part of an image, and its mirroring.
  struct Placement {
    int top = 0;
    int left = 0;
    int height = 0;
    int width = 0;
    bool mirror = false;
  };
  // Requires: no misfit, and not smaller than the crop.
  Placement Place(const PixelView& image, const RandomStream& random) const;

  // Requires: no misfit, `out` has room for OutputShape. T is float or double; or uint8_t for
  // unscaled bytes, only cropped and mirrored, H x W x C, which requires an image of bytes.
  template <typename T>
  void Apply(const PixelView& image, const RandomStream& random, T* out) const {
    ApplyAt(image, Place(image, random), out);
  }
  template <typename T>
  void ApplyAt(const PixelView& image, const Placement& place, T* out) const;

  // Interleaved pixels (BGRBGR...) of 1 or 3 channels.
  struct PackedView {
    const uint8_t* pixels = nullptr;
    ptrdiff_t row_bytes = 0;  // distance of rows
    int channels = 0;
  };
  // Like ApplyAt; `part` holds only the part that `place` keeps: its first pixel is at (place.top,
  // place.left) of the image. Requires also: the image has no misfit.
  template <typename T>
  void ApplyPacked(const PackedView& part, const Placement& place, T* out) const;

  // Returns the mean of one channel: mean_value, the average of the mean image, or 0.
  float ChannelMean(int channel) const;

 private:
  template <typename S, typename T>
  void ApplyTyped(const S* pixels, const PixelView& image, const Placement& place, T* out) const;
  template <typename T>
  T MeanValue(int channel) const;  // of mean_value; 0 without one

  const TransformationParameter param_;
  const Phase phase_;
  const int64_t crop_height_;  // 0: no crop
  const int64_t crop_width_;
  std::optional<MeanImage> mean_;
};

template <>
void Transformer::ApplyAt(const PixelView&, const Placement&, uint8_t*) const;
template <>
void Transformer::ApplyPacked(const PackedView&, const Placement&, uint8_t*) const;

}  // namespace crema
