// Local response normalisation over channels of blocked blobs by oneDNN. Only there when the build
// has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/lrn.h"

namespace crema {

struct LrnPrimitiveConfig {
  int64_t batch = 0;
  LrnShape shape;  // its channels fill whole blocks (core/memory_format.h)
  LrnParam param;
  bool backward = false;
  int threads = 1;
};

// Thread safety: one thread at a time, on at most `threads` threads.
class LrnPrimitive {
 public:
  // Throws kUnsupported where oneDNN has nothing for it.
  explicit LrnPrimitive(const LrnPrimitiveConfig& config);
  ~LrnPrimitive();
  LrnPrimitive(const LrnPrimitive&) = delete;
  LrnPrimitive& operator=(const LrnPrimitive&) = delete;

  // Something of it would be done by oneDNN's slow reference code.
  bool IsReference() const;
  // Bytes that Forward leaves for Backward; 0 without `backward`.
  size_t WorkspaceBytes() const;
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  // Makes the primitives, which the first call would do otherwise.
  void Prepare();
  // `workspace` may be null where nobody wants it.
  void Forward(const float* x, float* y, void* workspace, std::span<std::byte> scratch);
  // Requires `backward`.
  void Backward(const float* x, const void* workspace, const float* dy, float* dx,
                std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
