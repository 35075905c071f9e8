// Calibrated ranges of a layer's blobs, for int8 implementations.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/implementation.h"
#include "graph/int8_scale.h"
#include "graph/registry.h"
#include "math/int8_copy.h"
#include "math/int8_weights.h"
#include "plan/precision.h"

namespace crema {

// Return the scale of input i or output o. Require that the layer has that range (ComputesInt8).
inline Int8Scale InputScale(const Layer& layer, int i) {
  return ScaleOf(layer.param().int8().bottom(i));
}
inline Int8Scale OutputScale(const Layer& layer, int o) {
  return ScaleOf(layer.param().int8().top(o));
}

// Returns the layer, or the last layer fused into its implementation.
inline const Layer& LastLayer(const OpDesc& query) {
  return query.fused.empty() ? query.layer : *query.fused.back();
}

inline bool SameRange(const Int8Range& a, const Int8Range& b) {
  return a.max() == b.max() && a.non_negative() == b.non_negative();
}

// Requires inputs N x C x H x W and a CPU with AVX2 or AVX-512, in addition to ComputesInt8.
inline Support SupportsInt8Pixels(const OpDesc& query, size_t bottoms, size_t tops) {
  const Support support = ComputesInt8(query, bottoms, tops);
  if (!support.yes) return support;
  if (ChannelBlock() == 0) return Support::No("needs a processor with AVX2 or AVX-512");
  for (const BlobSpec& input : query.context.inputs) {
    if (input.shape.axes() != 4) return Support::No("is for N x C x H x W");
  }
  return {};
}

// Checks that 32-bit sums of `products` products of the layer's first input cannot overflow.
inline Support SumsAreExact(const OpDesc& query, int64_t products) {
  // Without VNNI, convolutions double the weights for signed inputs.
  const bool is_signed = InputScale(query.layer, 0).is_signed;
  const int64_t largest = is_signed ? 128 * 127 : 255 * LargestInt8Weight();
  if (products <= std::numeric_limits<int32_t>::max() / largest) return {};
  return Support::No(StrCat("sums of ", products, " products of bytes may exceed 32 bits"));
}

inline ImplementationFacts Int8Facts(std::string name) {
  return {.name = std::move(name),
          .input_format = {Layout::kNHWC, DType::kU8},
          .output_format = {Layout::kNHWC, DType::kU8}};
}

// Makes implementation "int8 by floats" of any layer with N x C x H x W blobs and ranges:
// dequantizes the inputs, calls the native method, and quantizes the outputs. It is slow; it lets
// blobs stay int8 up to implementations that fuse the layer.
ImplementationPtr Int8ByFloats();

// Makes implementation "int8" of a layer whose output equals its input: a copy of bytes.
ImplementationPtr Int8Copy();

}  // namespace crema
