// Matrix products in single precision by oneDNN, for operands that both change from pass to pass.
// Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace crema {

// C = scale * op(A) op(B), all row-major without gaps; op(A) is m x k, op(B) is k x n.
struct DenseProductConfig {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // A is given as k x m
  bool transpose_b = false;  // B is given as n x k
  float scale = 1;
  bool add = false;  // to the contents of C; scale is 1 then
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads. Inside a ParallelFor body use
// one with threads = 1.
class DenseProduct {
 public:
  // Requires m, n, k > 0. Throws kUnsupported if oneDNN has no implementation.
  explicit DenseProduct(const DenseProductConfig& config);
  ~DenseProduct();
  DenseProduct(DenseProduct&&) noexcept;
  DenseProduct& operator=(DenseProduct&&) noexcept;

  // Returns true if oneDNN uses its fastest code, compiled for this shape, and not a general one
  // that takes as long as Gemm.
  static bool IsFast(const DenseProductConfig& config);

  size_t Scratch() const;  // bytes that Run needs, on a cache line
  void Run(const float* a, const float* b, float* c, std::byte* scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
