// transform_param: from the pixels of a record to the values that a net sees.
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

// Which steps of transform_param a layer can do.
enum class TransformSteps {
  kPlain,      // what Transformer does
  kAugmented,  // also augment_param, which SampleWriter does
  kAnnotated,  // also those of SSD that need the boxes: see augment/
};

// Throws Error with where.layer and where.field: fields that exclude each other or are out of range
// (kInvalidArgument), fields that change pixels in ways this layer or build cannot (kUnsupported).
void ValidateTransform(const TransformationParameter& param, const std::string& layer,
                       TransformSteps steps = TransformSteps::kPlain);

// A mean image as stored in a BlobProto file.
struct MeanImage {
  Shape shape;  // C x H x W
  std::vector<float> values;
};

// Throws kNotFound, kIoFailure, or kDataLoss where `path` is no BlobProto of one image.
MeanImage ReadMeanImage(const std::string& path);

// Crops, subtracts the mean, scales and mirrors, in Caffe's order:
//   output(c, y, x or mirrored) = (pixel(c, y + top, x + left) - mean) * scale,
// the mean image being read at the uncropped, unmirrored place. Crops are random in TRAIN and
// centred in TEST; mirroring is random in both.
// Thread safety: const, any number of threads.
class Transformer {
 public:
  // Reads mean_file. `layer` names the layer in errors; also throws what ValidateTransform does.
  Transformer(const TransformationParameter& param, Phase phase, const std::string& layer,
              TransformSteps steps = TransformSteps::kPlain);

  struct Misfit {
    std::string field;  // "transform_param.crop_size"
    std::string message;
  };
  // Why images of this size (C x H x W) cannot be transformed; nothing when they can. With
  // resized_crop any size will do: SampleAugmenter comes first and brings it to the crop.
  std::optional<Misfit> FindMisfit(const Shape& image) const;
  Shape OutputShape(const Shape& image) const;
  ColorMode color_mode() const;
  const TransformationParameter& param() const { return param_; }
  Phase phase() const { return phase_; }
  int crop_height() const { return static_cast<int>(crop_height_); }  // 0: no crop
  int crop_width() const { return static_cast<int>(crop_width_); }

  // The random numbers of one sample; `ordinal` counts samples and never starts again, so that each
  // epoch gets draws of its own.
  static RandomStream SampleStream(uint64_t seed, uint64_t layer_id, uint64_t ordinal);

  // Which part of an image is kept, and whether it is turned over.
  struct Placement {
    int top = 0;
    int left = 0;
    int height = 0;
    int width = 0;
    bool mirror = false;
  };
  // Requires: no misfit, and not smaller than the crop.
  Placement Place(const PixelView& image, const RandomStream& random) const;

  // Requires: no misfit, room for OutputShape at `out`. T is float or double; or uint8_t for the
  // bytes as they are, cropped and mirrored only, height x width x channels: requires then an image
  // of bytes.
  template <typename T>
  void Apply(const PixelView& image, const RandomStream& random, T* out) const {
    ApplyAt(image, Place(image, random), out);
  }
  template <typename T>
  void ApplyAt(const PixelView& image, const Placement& place, T* out) const;

  // Pixels whose channels lie together (BGRBGR...), 1 or 3 of them.
  struct PackedView {
    const uint8_t* pixels = nullptr;
    ptrdiff_t row_bytes = 0;  // from one row to the next
    int channels = 0;
  };
  // As ApplyAt for the image of which `part` is what `place` keeps: its first pixel is the one at
  // (place.top, place.left). Requires also: the image has no misfit.
  template <typename T>
  void ApplyPacked(const PackedView& part, const Placement& place, T* out) const;

  // The mean of one channel: mean_value, the average of the mean image, or 0.
  float ChannelMean(int channel) const;

 private:
  template <typename S, typename T>
  void ApplyTyped(const S* pixels, const PixelView& image, const Placement& place, T* out) const;
  template <typename T>
  T MeanValue(int channel) const;  // of mean_value; 0 where there is none

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
