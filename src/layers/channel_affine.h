// Layers that scale and shift each channel. A preceding convolution can fold this into its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// Interface of per-channel affine layers. Thread safety: const.
class ChannelAffine {
 public:
  virtual ~ChannelAffine() = default;
  // Returns true if the forward pass of `phase` is exactly y = factor[c] * x + shift[c], with the
  // channels on axis 1 and factor and shift taken from the layer's own parameters.
  virtual bool IsChannelAffine(Phase phase) const = 0;
  // Writes factor[c] and shift[c]. Requires IsChannelAffine, f32, and `parameters` as passed to
  // Forward.
  virtual void ReadChannelAffine(std::span<const ConstTensorView> parameters,
                                 std::span<double> factor, std::span<double> shift) const = 0;
  // Returns the number of parameters of the layer.
  virtual size_t AffineBlobs() const = 0;
};

}  // namespace crema
