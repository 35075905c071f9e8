// mixup and cutmix: mix the samples of a batch with each other.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"

namespace crema {

// Draws a share from Beta(alpha, alpha). Requires: alpha > 0.
double DrawShare(double alpha, Draws& draws);

// Mixes sample i with its predecessor in the batch (the first with the last), as torchvision's
// MixUp and CutMix do. One draw per batch, as in the code of both papers. The draw depends on seed,
// layer and position only. Thread safety: const.
class BatchMix {
 public:
  struct Options {
    double mixup = 0;  // alpha; 0: off. At least one of the two is above 0
    double cutmix = 0;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  explicit BatchMix(const Options& options) : options_(options) {}

  struct Draw {
    double share = 1;  // weight of the sample itself
    bool cuts = false;
    PixelRect part = {};  // cutmix: the part taken from the other sample
  };
  // Returns the draw for the batch that begins with sample `position`.
  Draw DrawFor(uint64_t position, int height, int width) const;

  // Mixes images (batch x C x H x W) and label probabilities (batch x classes), both f32 or f64.
  void Copy(std::span<const ConstTensorView> from, uint64_t position,
            std::span<const TensorView> to) const;

 private:
  const Options options_;
};

}  // namespace crema
