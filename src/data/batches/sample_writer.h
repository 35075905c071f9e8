// The last step of decoding: pixels of a record to one sample of a batch.
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
#include "data/augment/sample_augmenter.h"
#include "data/image/image.h"
#include "data/transform/transformer.h"

namespace crema {

class JpegFile;

// Thread safety: one thread at a time.
class SampleWriter {
 public:
  struct Options {
    Shape sample;               // C x H x W of every sample
    DType dtype = DType::kF32;  // of images; u8: bytes as they are, H x W x C
    DType label_dtype = DType::kF32;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
    std::string who_decides = "the first record is";  // what the shape of a sample comes from
    // Labels are written as a probability for each of so many classes; 0: as they are.
    int64_t classes = 0;
    // The bytes go up to a GPU, which mirrors them (graph/byte_source.h): here they stay as they
    // lie.
    bool uploads = false;
    bool places = false;  // the last output takes placements (data/transform/placement_bytes.h)
  };
  // `transformer` is shared by the decoders of a layer.
  SampleWriter(Options options, std::shared_ptr<const Transformer> transformer);

  // Augments and transforms sample `ordinal` to `place`. Throws kDataLoss for an image that does
  // not give the shape of a sample, or of floats where bytes are needed; `name` says which one it
  // is. `placement`, which may be null, takes kPlacementBytes that say where the pixels lay.
  void Write(const PixelView& image, uint64_t ordinal, const std::function<std::string()>& name,
             std::byte* place, std::byte* placement = nullptr);
  // The same for a whole image file. Of a JPEG only what the crop keeps is decoded, which gives the
  // same values. Throws also what DecodeImage throws.
  void WriteEncoded(std::string_view file, ColorMode mode, uint64_t ordinal,
                    const std::function<std::string()>& name, std::byte* place,
                    std::byte* placement = nullptr);
  // Throws kDataLoss for a label that is none of Options::classes.
  void WriteLabel(double label, const std::function<std::string()>& name, std::byte* place) const;

  // Which of a sample's places takes its label, and which its placement; null: none.
  std::byte* LabelOf(std::span<std::byte* const> places) const {
    return places.size() > (options_.places ? 2 : 1) ? places[1] : nullptr;
  }
  std::byte* PlacementOf(std::span<std::byte* const> places) const {
    return options_.places ? places.back() : nullptr;
  }

  const Options& options() const { return options_; }
  const Transformer& transformer() const { return *transformer_; }
  // Null where nothing is to be done to an image of this shape.
  const SampleAugmenter* AugmenterFor(const Shape& image) const {
    return augmenter_ && augmenter_->Changes(image) ? augmenter_.get() : nullptr;
  }
  // Both throw as Write; for those who transform themselves.
  void CheckShape(const Shape& image, const std::function<std::string()>& name);
  void CheckElements(const PixelView& image, const std::function<std::string()>& name) const;
  // The last step of Write, where the place was drawn already.
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
  // What is to be done here of what was drawn, which goes to `placement` unless that is null.
  Transformer::Placement Keep(const Transformer::Placement& drawn, std::byte* placement) const;
  RandomStream StreamOf(uint64_t ordinal) const;

  const Options options_;
  const std::shared_ptr<const Transformer> transformer_;
  const std::shared_ptr<const SampleAugmenter> augmenter_;  // may be null
  Shape last_image_;                                        // passed the checks already
  PackedImage part_;
  Image image_;
};

// The options of a layer's writers: transform_param.random_seed, where it is set, is the seed.
// `outputs` are images and, where there are any, labels.
SampleWriter::Options WriterOptions(std::span<const BlobSpec> outputs,
                                    const TransformationParameter& transform, uint64_t seed,
                                    const std::string& layer);

}  // namespace crema
