// Softmax of rows by oneDNN. Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace crema {

// Thread safety: one thread at a time, on at most `threads` threads.
class SoftmaxPrimitive {
 public:
  // Throws kUnsupported if oneDNN has no implementation.
  SoftmaxPrimitive(int64_t rows, int64_t classes, int threads);
  ~SoftmaxPrimitive();
  SoftmaxPrimitive(const SoftmaxPrimitive&) = delete;
  SoftmaxPrimitive& operator=(const SoftmaxPrimitive&) = delete;

  // Returns true if oneDNN has only its slow reference code.
  bool IsReference() const;
  size_t Scratch() const;  // bytes
  // Creates the primitive; otherwise the first Forward does.
  void Prepare();
  // y may be x. A row with a NaN or +infinity becomes all NaN.
  void Forward(const float* x, float* y, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
