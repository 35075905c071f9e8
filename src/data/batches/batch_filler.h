// Fills the place of one sample in a batch: the last step of decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/dtype.h"
#include "core/shape.h"
#include "core/tensor.h"
#include "crema.pb.h"
#include "data/augment/sample_augmenter.h"
#include "data/image/image.h"
#include "data/transform/transformer.h"

namespace crema {

class JpegFile;

// Thread safety: one thread at a time.
class BatchFiller {
 public:
  struct Options {
    Shape sample;               // C x H x W of every sample
    DType dtype = DType::kF32;  // of images; u8: raw bytes, H x W x C
    DType label_dtype = DType::kF32;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
    std::string who_decides = "the first record is";  // origin of the sample shape, for messages
    // Writes labels as one probability per class; 0: as numbers.
    int64_t classes = 0;
    // Bytes are copied to a GPU, which mirrors them (graph/byte_source.h); do not mirror here.
    bool uploads = false;
    bool places = false;  // the last output is a placement (data/transform/placement_bytes.h)
  };
  // The decoders of a layer share `transformer`.
  BatchFiller(Options options, std::shared_ptr<const Transformer> transformer);

  // Augments and transforms sample `ordinal` to `place`. Throws kDataLoss, naming the sample by
  // `name`, if the image does not have the sample's shape, or holds floats where bytes are
  // required. Writes kPlacementBytes with the position of the crop to `placement` unless it is
  // null.
  void Write(const PixelView& image, uint64_t ordinal, const std::function<std::string()>& name,
             std::byte* place, std::byte* placement = nullptr);
  // Like Write for an image file. Decodes only the cropped part of a JPEG, with the same result.
  // Also throws what DecodeImage throws.
  void WriteEncoded(std::string_view file, ColorMode mode, uint64_t ordinal,
                    const std::function<std::string()>& name, std::byte* place,
                    std::byte* placement = nullptr);
  // Throws kDataLoss for a label outside of Options::classes.
  void WriteLabel(double label, const std::function<std::string()>& name, std::byte* place) const;

  // Select the outputs for label and placement; null if there is none.
  std::byte* LabelOf(std::span<std::byte* const> places) const {
    return places.size() > (options_.places ? 2 : 1) ? places[1] : nullptr;
  }
  std::byte* PlacementOf(std::span<std::byte* const> places) const {
    return options_.places ? places.back() : nullptr;
  }

  const Options& options() const { return options_; }
  const Transformer& transformer() const { return *transformer_; }
  // Returns null if images of this shape are not augmented.
  const SampleAugmenter* AugmenterFor(const Shape& image) const {
    return augmenter_ && augmenter_->Changes(image) ? augmenter_.get() : nullptr;
  }
  // Both throw like Write; for callers that transform the image themselves.
  void CheckShape(const Shape& image, const std::function<std::string()>& name);
  void CheckElements(const PixelView& image, const std::function<std::string()>& name) const;
  // Last step of Write, for a placement that was drawn already.
  void WriteAt(const PixelView& image, const Transformer::Placement& drawn, std::byte* place,
               std::byte* placement) const;

 private:
  void WriteJpeg(std::string_view file, ColorMode mode, uint64_t ordinal,
                 const std::function<std::string()>& name, std::byte* place, std::byte* placement);
  void AugmentJpeg(const SampleAugmenter& augmenter, JpegFile* jpeg, uint64_t ordinal);
  void Transform(const PixelView& image, uint64_t ordinal, std::byte* place,
                 std::byte* placement) const {
    WriteAt(image, transformer_->Place(image, StreamOf(ordinal)), place, placement);
  }
  // Returns the steps of `drawn` to apply here. Writes `drawn` to `placement` unless it is null.
  Transformer::Placement Keep(const Transformer::Placement& drawn, std::byte* placement) const;
  RandomStream StreamOf(uint64_t ordinal) const;

  const Options options_;
  const std::shared_ptr<const Transformer> transformer_;
  const std::shared_ptr<const SampleAugmenter> augmenter_;  // may be null
  Shape last_image_;                                        // last image that passed the checks
  PackedImage part_;
  Image image_;
};

// Options of a layer's writers: transform_param.random_seed replaces the seed if set. `outputs` are
// images and optional labels.
BatchFiller::Options BatchFillerOptions(std::span<const BlobSpec> outputs,
                                        const TransformationParameter& transform, uint64_t seed,
                                        const std::string& layer);

}  // namespace crema
