// The product of an InnerProduct layer, or of a step of a recurrent one, in single precision by
// oneDNN, with the weights in the order that it likes. Only there when the build has oneDNN
// (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/bias_activation.h"
#include "math/packed_weights.h"

namespace crema {

// Y (rows x outputs) = relu(X W^T + bias), or with `add` what it was and that; X is rows x inputs.
struct PackedProductConfig {
  int64_t rows = 0;
  int64_t outputs = 0;
  int64_t inputs = 0;
  bool transposed = false;  // W is given as inputs x outputs
  bool bias = false;
  bool add = false;  // has neither bias nor ReLU then
  FusedRelu relu = {};
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads.
class PackedProduct {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit PackedProduct(const PackedProductConfig& config);
  ~PackedProduct();
  PackedProduct(const PackedProduct&) = delete;
  PackedProduct& operator=(const PackedProduct&) = delete;

  // Bytes that a call needs as scratch, and that this keeps for packed weights.
  size_t Scratch() const;
  size_t PackedBytes() const;

  // `keep_weights`: weights are those of the call before, if that said so too.
  void Forward(const float* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);

  // What Forward keeps of the weights, null before it does; and the same of another one, for the
  // same weights, instead of its own: false where it is in another order.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

  // The next call packs its weights, even if the one before was to keep them.
  void ForgetWeights();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
