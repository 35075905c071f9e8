// y = relu(x W^T + bias) on bytes by oneDNN: bytes times bytes, summed exactly in 32 bits.
// Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/bias_activation.h"
#include "math/int8_copy.h"
#include "math/packed_weights.h"

namespace crema {

struct Int8ProductConfig {
  int64_t rows = 0;
  // Of a row of x: `channels` x `height` x `width` as the columns of the weights have them. Bytes
  // lie as in MemoryFormat::kInt8.
  int64_t channels = 0;
  int64_t height = 1;
  int64_t width = 1;
  int64_t outputs = 0;
  bool transposed = false;  // weights are inputs x outputs
  Int8Scale x;
  bool bias = false;
  FusedRelu relu;
  int threads = 1;

  int64_t Inputs() const { return channels * height * width; }
};

// Thread safety: one thread at a time, on at most `threads` threads.
class Int8Product {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit Int8Product(const Int8ProductConfig& config);
  ~Int8Product();
  Int8Product(const Int8Product&) = delete;
  Int8Product& operator=(const Int8Product&) = delete;

  size_t Scratch() const;
  size_t PackedBytes() const;
  // `keep_weights`: weights are those of the call before, if that said so too. `bias` is read where
  // the configuration has one.
  void Forward(const void* x, const float* weight, const float* bias, float* y, bool keep_weights,
               std::span<std::byte> scratch);

  // What is kept of the weights, null before that; and the same of another one, for the same
  // weights, instead of its own: false where that does not fit.
  SharedPackedWeights ExportPacked() const;
  bool ImportPacked(const SharedPackedWeights& shared);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
