// Local response normalisation over channels of blocked blobs by oneDNN. Only in builds with oneDNN
// (CREMA_HAVE_ONEDNN).
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
  // Throws kUnsupported if oneDNN has no implementation.
  explicit LrnPrimitive(const LrnPrimitiveConfig& config);
  ~LrnPrimitive();
  LrnPrimitive(const LrnPrimitive&) = delete;
  LrnPrimitive& operator=(const LrnPrimitive&) = delete;

  // Returns true if oneDNN has only its slow reference code for one of the passes.
  bool IsReference() const;
  // Bytes that Forward writes for Backward; 0 without `backward`.
  size_t WorkspaceBytes() const;
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  // Creates the primitives; otherwise the first call does.
  void Prepare();
  // `workspace` may be null if Backward is not called.
  void Forward(const float* x, float* y, void* workspace, std::span<std::byte> scratch);
  // Requires `backward`.
  void Backward(const float* x, const void* workspace, const float* dy, float* dx,
                std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
