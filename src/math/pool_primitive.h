// Pooling of blocked blobs by oneDNN. Only in builds with oneDNN (CREMA_HAVE_ONEDNN).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "math/pool.h"

namespace crema {

// N x C x H x W; C fills whole blocks (core/memory_format.h).
struct PoolPrimitiveConfig {
  enum class Rule : uint8_t {
    kMax,             // the first largest
    kMeanOfWindow,    // divided by kernel height * kernel width, padding included
    kMeanInsideImage  // divided by the cells inside the image
  };

  int64_t batch = 0;
  int64_t channels = 0;
  PoolWindow window;  // none may be empty
  Rule rule = Rule::kMax;
  bool backward = false;
  int threads = 1;
  bool halves = false;  // blobs are of bfloat16, not f32
};

// Thread safety: one thread at a time, on at most `threads` threads.
class PoolPrimitive {
 public:
  // Throws kUnsupported if oneDNN has no implementation.
  explicit PoolPrimitive(const PoolPrimitiveConfig& config);
  ~PoolPrimitive();
  PoolPrimitive(const PoolPrimitive&) = delete;
  PoolPrimitive& operator=(const PoolPrimitive&) = delete;

  // Returns true if oneDNN has only its slow reference code for one of the passes.
  bool IsReference() const;
  // Bytes for the positions of the maxima in their windows, kernel row * kernel width + kernel
  // column, in the order of y, of one or four bytes each. 0 for means, and without `backward`.
  size_t IndexBytes() const;
  int64_t Images() const;
  size_t ForwardScratch() const;
  size_t BackwardScratch() const;
  // Creates the primitives; otherwise the first call does.
  void Prepare();

  // A window without a value above -FLT_MAX has its maximum, -FLT_MAX, at position 0. `index`: see
  // IndexBytes; null: not needed.
  void Forward(const void* x, void* y, void* index, std::span<std::byte> scratch);
  // Requires `backward`; `index` is what Forward wrote.
  void Backward(const void* index, const void* dy, void* dx, std::span<std::byte> scratch);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema
