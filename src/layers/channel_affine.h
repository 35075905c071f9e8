// Layers that multiply each channel by a number and add another one: a convolution in front can do
// that with its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// An interface of such layers. Thread safety: const.
class ChannelAffine {
 public:
  virtual ~ChannelAffine() = default;
  // Whether it is y = factor[c] * x + shift[c] and nothing else in a forward pass, with the
  // channels on axis 1 and numbers that are learned blobs of its own.
  virtual bool IsChannelAffine(Phase phase) const = 0;
  // Requires IsChannelAffine, `learned` blobs as its Forward gets them, and f32.
  virtual void ReadChannelAffine(std::span<const ConstTensorView> learned, std::span<double> factor,
                                 std::span<double> shift) const = 0;
  // How many learned blobs it has.
  virtual size_t AffineBlobs() const = 0;
};

}  // namespace crema
