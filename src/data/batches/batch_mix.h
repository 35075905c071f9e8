// mixup and cutmix: whole batches whose samples are mixed with each other.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "data/augment/canvas.h"
#include "data/augment/draws.h"

namespace crema {

// A share from Beta(alpha, alpha), alpha above 0.
double DrawShare(double alpha, Draws& draws);

// Sample i is mixed with the one before it in the batch, the first with the last, as torchvision's
// MixUp and CutMix do. One draw a batch, as in the code of both papers; it is a function of seed,
// layer and position. Thread safety: const.
class BatchMix {
 public:
  struct Options {
    double mixup = 0;  // alpha; 0: never. One of the two is above 0
    double cutmix = 0;
    uint64_t seed = 1;
    uint64_t layer_id = 0;
  };
  explicit BatchMix(const Options& options) : options_(options) {}

  struct Draw {
    double share = 1;  // of the sample itself; the rest is the other's
    bool cuts = false;
    PixelRect part = {};  // cuts: what comes from the other; else everything is a sum
  };
  // For the batch that begins with sample `position`.
  Draw DrawFor(uint64_t position, int height, int width) const;

  // Images (batch x C x H x W) and probabilities of labels (batch x classes), both f32 or f64.
  void Copy(std::span<const ConstTensorView> from, uint64_t position,
            std::span<const TensorView> to) const;

 private:
  const Options options_;
};

}  // namespace crema
