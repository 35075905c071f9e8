// The product of an InnerProduct layer, or of a step of a recurrent one, by oneDNN, with packed
// weights. Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "core/dtype.h"
#include "math/bias_activation.h"
#include "math/int8_copy.h"
#include "math/packed_weights.h"

namespace crema {

// Y (rows x outputs) = relu(X W^T + bias), or with `add` what it was and that. X is rows x
// `channels` x `height` x `width`, and W has the columns in that order.
struct PackedProductConfig {
  int64_t rows = 0;
  int64_t channels = 0;
  int64_t height = 1;  // above 1, as `width`, only for kU8: X is then in Layout::kNHWC
  int64_t width = 1;
  int64_t outputs = 0;
  bool transposed = false;  // W is given as inputs x outputs
  // Type of both factors. kF32: sums are in single precision. kBF16: X and W are rounded, sums are
  // in single precision. kU8: X is bytes of scale `x`, W is rounded to bytes, sums are exact.
  DType type = DType::kF32;
  Int8Scale x = {};
  bool bias = false;
  bool add = false;  // for kF32 with neither bias nor ReLU
  FusedRelu relu = {};
  int threads = 1;

  int64_t Inputs() const { return channels * height * width; }
};

// Thread safety: one thread at a time, on at most `threads` threads.
class PackedProduct {
 public:
  // Requires a row and more. Throws kUnsupported where oneDNN has nothing for it.
  explicit PackedProduct(const PackedProductConfig& config);
  ~PackedProduct();
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;

  // Bytes that a call needs as scratch, and that this keeps for packed weights.
  size_t Scratch() const;
  size_t PackedBytes() const;

  // `x` is float, or bytes for kU8. `bias` is read where the configuration has one. `keep_weights`:
  // weights are those of the call before, if that said so too.
  void Forward(const void* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);

  // Returns the packed weights that Forward keeps; null: none.
  SharedPackedWeights ExportPacked() const;
  // Uses those of another product for the same weights instead of its own; false where it would
  // pack them otherwise.
  bool ImportPacked(const SharedPackedWeights& shared);

  // The next call packs its weights, even if the one before was to keep them.
  void ForgetWeights();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
