// Local response normalisation over channels of blocked blobs by oneDNN, forward. Only there when
// the build has oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/lrn.h"

namespace crema {

// Thread safety: one thread at a time, on at most `threads` threads.
class LrnPrimitive {
 public:
  // Channels fill whole blocks (core/memory_format.h). Throws kUnsupported where oneDNN has nothing
  // for it.
  LrnPrimitive(int64_t batch, const LrnShape& shape, const LrnParam& param, int threads);
  ~LrnPrimitive();
  LrnPrimitive(const LrnPrimitive&) = delete;
  LrnPrimitive& operator=(const LrnPrimitive&) = delete;

  // It would be done by oneDNN's slow reference code.
  bool IsReference() const;
  size_t Scratch() const;  // bytes
  // Makes the primitive, which the first call would do otherwise.
  void Prepare();
  void Forward(const float* x, float* y, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
