// augment_param: random changes of one sample while training. docs/augmentation.md has the
// definitions.
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

// Turns, crops and recolours images of bytes before Transformer crops, mirrors and scales them.
// What becomes of a sample is a function of seed, layer and ordinal; each step has draws of its
// own, so that adding one leaves the others as they were. In TEST images are left alone, but those
// that are smaller than the crop are enlarged to cover it where resized_crop is set. Thread safety:
// const, any number of threads.
class SampleAugmenter {
 public:
  struct Options {
    int channels = 3;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  // Null where nothing is ever to be done.
  static std::shared_ptr<const SampleAugmenter> Make(const Transformer& transformer,
                                                     const Options& options);

  // Whether Apply does anything to an image of this shape (C x H x W).
  bool Changes(const Shape& image) const;

  // `objects` may be null. Throws kUnsupported for steps that this build has not.
  void Apply(uint64_t ordinal, Image* image, std::vector<ObjectBox>* objects = nullptr) const;

  // The part of an image that Apply begins with, so that the rest need not be decoded; nothing when
  // it needs all. ApplyToPart does the rest of Apply with it.
  std::optional<PixelRect> FirstPart(uint64_t ordinal, int height, int width) const;
  void ApplyToPart(uint64_t ordinal, Image* part) const;

 private:
  enum class Step : uint64_t;

  SampleAugmenter(const Transformer& transformer, const Options& options);
  Draws DrawsOf(Step step, uint64_t ordinal) const;
  Turn DrawTurn(uint64_t ordinal) const;
  void TurnAll(uint64_t ordinal, Image* image, std::vector<ObjectBox>* objects) const;
  PixelRect DrawPart(uint64_t ordinal, int height, int width) const;
  void CropAll(uint64_t ordinal, Image* image, std::vector<ObjectBox>* objects) const;
  void ResizeToCrop(Image* image) const;
  void Cover(Image* image) const;
  void Recolor(uint64_t ordinal, Image* image) const;
  void BlurSome(uint64_t ordinal, Image* image) const;
  void EraseSome(uint64_t ordinal, Image* image) const;
  // What is left of the objects when only the window is left, which is so many pixels high and
  // wide.
  std::vector<ObjectBox> Keep(const std::vector<ObjectBox>& objects, const Box& window, int height,
                              int width) const;

  const AugmentParameter param_;
  const Phase phase_;
  const bool turns_;
  const int crop_height_;
  const int crop_width_;
  const uint64_t seed_;
  const uint64_t stream_;
  EmitConstraint constraint_;  // the centre, unless the text says otherwise
  std::vector<uint8_t> fill_;  // the mean of each channel
};

}  // namespace crema
