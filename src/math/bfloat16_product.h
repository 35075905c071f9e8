// A matrix of inputs times one of fixed weights that are kept as bfloat16, by oneDNN.
// Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/bias_activation.h"
#include "math/packed_weights.h"

namespace crema {

struct BFloat16ProductConfig {
  int64_t rows = 0;
  int64_t inputs = 0;
  int64_t outputs = 0;
  bool transposed = false;  // weights are inputs x outputs, else outputs x inputs
  bool bias = false;
  FusedRelu relu;
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads.
class BFloat16Product {
 public:
  // Requires a row and more. Throws kUnsupported where oneDNN has nothing for it.
  explicit BFloat16Product(const BFloat16ProductConfig& config);
  ~BFloat16Product();
  BFloat16Product(const BFloat16Product&) = delete;
  BFloat16Product& operator=(const BFloat16Product&) = delete;

  size_t Scratch() const;      // bytes that Run needs
  size_t PackedBytes() const;  // of the weights

  bool HasWeights() const;
  void SetWeights(const float* weight);
  // y = relu(x * weights + bias): rows x inputs to rows x outputs, row-major; x is rounded too,
  // sums are in single precision. Requires HasWeights().
  void Run(const float* x, const float* bias, float* y, std::span<std::byte> scratch);

  // What is kept of the weights, null before that; and the same of another one, for the same
  // weights, instead of its own: false where that does not fit.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
