// Softmax of rows by oneDNN. Only there when the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace crema {

// Thread safety: one thread at a time, on at most `threads` threads.
class SoftmaxPrimitive {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  SoftmaxPrimitive(int64_t rows, int64_t classes, int threads);
  ~SoftmaxPrimitive();
  SoftmaxPrimitive(const SoftmaxPrimitive&) = delete;
  SoftmaxPrimitive& operator=(const SoftmaxPrimitive&) = delete;

  // It would be done by oneDNN's slow reference code.
  bool IsReference() const;
  size_t Scratch() const;  // bytes
  // Makes the primitive, which the first call would do otherwise.
  void Prepare();
  // y may be x. A row with NaN or with +infinity is NaN as a whole.
  void Forward(const float* x, float* y, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
