// augment_param: random changes of a sample during training, defined in docs/augmentation.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "data/augment/box.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"
#include "data/augment/warp.h"
#include "data/image/image.h"
#include "data/transform/transformer.h"

namespace crema {

// Rotates, crops and recolours byte images before Transformer crops, mirrors and scales them. The
// result depends on seed, layer and ordinal only. Each step has its own random stream, so that
// adding a step does not affect the others. In TEST, images are unchanged, except that with
// resized_crop smaller images are enlarged to cover the crop. Thread safety: const, any number of
// threads.
class SampleAugmenter {
 public:
  struct Options {
    int channels = 3;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  // Returns null if there is nothing to do in any case.
  static std::shared_ptr<const SampleAugmenter> Make(const Transformer& transformer,
                                                     const Options& options);

  // Returns true if Apply may change an image of this shape (C x H x W).
  bool Changes(const Shape& image) const;

  // `objects` may be null. Throws kUnsupported for steps that need OpenCV in a build without it.
  void Apply(uint64_t ordinal, Image* image, std::vector<AnnotatedBox>* objects = nullptr) const;

  // Returns the part of the image that Apply starts from, so that the rest need not be decoded;
  // nothing if Apply needs the whole image. ApplyToPart then does the rest of Apply.
  std::optional<PixelRect> FirstPart(uint64_t ordinal, int height, int width) const;
  void ApplyToPart(uint64_t ordinal, Image* part) const;

 private:
  enum class Step : uint64_t;

  SampleAugmenter(const Transformer& transformer, const Options& options);
  Draws DrawsOf(Step step, uint64_t ordinal) const;
  Warp DrawWarp(uint64_t ordinal) const;
  void WarpAll(uint64_t ordinal, Image* image, std::vector<AnnotatedBox>* objects) const;
  PixelRect DrawPart(uint64_t ordinal, int height, int width) const;
  void CropAll(uint64_t ordinal, Image* image, std::vector<AnnotatedBox>* objects) const;
  void ResizeToCrop(Image* image) const;
  void Cover(Image* image) const;
  void Recolor(uint64_t ordinal, Image* image) const;
  void BlurSome(uint64_t ordinal, Image* image) const;
  void EraseSome(uint64_t ordinal, Image* image) const;
  // Returns the objects that remain when the image is reduced to the window, whose size is in
  // pixels.
  std::vector<AnnotatedBox> Keep(const std::vector<AnnotatedBox>& objects, const Box& window,
                                 int height, int width) const;

  const AugmentParameter param_;
  const Phase phase_;
  const bool warps_;
  const int crop_height_;
  const int crop_width_;
  const uint64_t seed_;
  const uint64_t stream_;
  EmitConstraint constraint_;  // default: the centre must remain inside
  std::vector<uint8_t> fill_;  // the mean of each channel
};

}  // namespace crema
