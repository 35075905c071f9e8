// The product of an InnerProduct layer, or of a step of a recurrent one, by oneDNN, with packed
// weights. Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/dtype.h"
#include "math/bias_activation.h"
#include "math/fused_activation.h"
#include "math/int8_copy.h"
#include "math/packed_weights.h"

namespace crema {

// Y (rows x outputs) = activation(X W^T + bias), or with `add` Y += X W^T. X is rows x `channels` x
// `height` x `width`, and W has its columns in that order.
struct PackedProductConfig {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t height = 1;  // above 1, as `width`, only for kU8: X is then in Layout::kNHWC
  int64_t width = 1;
  int64_t outputs = 0;
  bool transposed = false;  // W is given as inputs x outputs
  // Type of both factors. kF32: sums in single precision. kBF16: X and W are rounded, sums in
  // single precision. kU8: X is uint8 of scale `x`, W is quantized to int8, sums are exact.
  DType type = DType::kF32;
  Int8Scale x = {};
  bool bias = false;
  bool add = false;  // for kF32 with neither bias nor activation
  FusedRelu relu = {};
  FusedActivation activation = {};  // without ReLU, not for kU8
  int threads = 1;

  int64_t Inputs() const { return channels * height * width; }
};

// Thread safety: one thread at a time, on at most `threads` threads.
class PackedProduct {
 public:
  // Requires at least one row. Throws kUnsupported if oneDNN has no implementation.
  explicit PackedProduct(const PackedProductConfig& config);
  ~PackedProduct();
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;

  // Returns the bytes of scratch of a call, and of the packed weights that this object keeps.
  size_t Scratch() const;
  size_t PackedBytes() const;

  // `x` is float, or bytes for kU8. `bias` is read if the configuration has one. `keep_weights`:
  // the weights have not changed since the previous call, which had keep_weights too.
  void Forward(const void* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);

  // Returns the packed weights that Forward keeps; null: none.
  SharedPackedWeights ExportPacked() const;
  // Uses those of another product for the same weights instead of its own; returns false if their
  // layout differs.
  bool ImportPacked(const SharedPackedWeights& shared);

  // The next call packs the weights even if the previous call had keep_weights.
  void ForgetWeights();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
