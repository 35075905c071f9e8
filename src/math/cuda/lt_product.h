// A product by cuBLASLt, with bias and ReLU in its epilogue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/dtype.h"
#include "math/cuda/cuda_queue.h"

namespace crema {

// C = relu(op(A) op(B) + bias), row-major, sizes and leading dimensions as in CudaGemm.
struct LtProductConfig {
  DType dtype = DType::kF32;  // f32, f16 or bf16 of all blobs; sums are f32
  bool tf32 = false;          // f32 products may round their operands to TF32
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;  // none of them 0
  int64_t lda = 0, ldb = 0, ldc = 0;
  bool bias = false;  // of n elements, added to each row
  bool relu = false;
  size_t workspace = 0;  // bytes that an algorithm may use
  size_t alignment = 0;  // of all addresses, in bytes

  bool operator==(const LtProductConfig&) const = default;
};

struct LtPointers {
  const void *a, *b, *bias;  // bias may be null
  void* c;
};
// Returns the largest power of two, at most 256, that divides all of them.
size_t AlignmentOf(const LtPointers& pointers);

// Uses the fastest algorithm by cuBLASLt's estimate, for the GPU of `queue`. Move only. Thread
// safety: one thread at a time.
class LtProduct {
 public:
  // Throws kDeviceFailure, also if cuBLASLt cannot be used. Does not wait for the GPU.
  LtProduct(const CudaQueue& queue, const LtProductConfig& config);
  ~LtProduct();
  LtProduct(const LtProduct&) = delete;
  LtProduct& operator=(const LtProduct&) = delete;

  const LtProductConfig& config() const { return config_; }
  // Returns true if cuBLASLt has an algorithm; Run requires one.
  bool found() const { return found_; }
  // Queued; does not wait. `workspace`: as many bytes as in the config, at a multiple of 256.
  void Run(const CudaQueue& queue, const LtPointers& pointers, void* workspace);

 private:
  struct Descriptors;
  const LtProductConfig config_;
  const std::unique_ptr<Descriptors> descriptors_;
  bool found_ = false;
};

}  // namespace crema
