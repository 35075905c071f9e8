// Divides one reserved block of scratch memory into typed pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/error.h"

namespace crema {

// To reserve, add ScratchBytes of each piece and kScratchSlack once; then take the same pieces.
// Pieces are aligned to a cache line. Thread safety: one thread at a time.
class ScratchCutter {
 public:
  // Returns the bytes to book for cut(&cutter), which must not use the pieces, null here.
  template <typename Cut>
  static size_t Booked(const Cut& cut) {
    ScratchCutter cutter({});
    cutter.books_ = true;
    cut(&cutter);
    return cutter.used_ + kLine;
  }

  explicit ScratchCutter(std::span<std::byte> memory) : memory_(memory) {
    used_ = (kLine - reinterpret_cast<uintptr_t>(memory.data()) % kLine) % kLine;
  }

  template <typename T>
  T* Take(int64_t count) {
    const size_t bytes = Bytes<T>(count);
    CREMA_CHECK(books_ || bytes == 0 || used_ + bytes <= memory_.size());
    T* piece = books_ ? nullptr : reinterpret_cast<T*>(memory_.data() + used_);
    used_ += bytes;
    return piece;
  }

  // Returns the memory that is left.
  std::span<std::byte> Rest() const { return memory_.subspan(std::min(used_, memory_.size())); }

  template <typename T>
  static size_t Bytes(int64_t count) {
    return (static_cast<size_t>(count) * sizeof(T) + kLine - 1) / kLine * kLine;
  }

 private:
  static constexpr size_t kLine = 64;
  std::span<std::byte> memory_;
  bool books_ = false;
  size_t used_ = 0;
};

template <typename T>
size_t ScratchBytes(int64_t count) {
  return ScratchCutter::Bytes<T>(count);
}
constexpr size_t kScratchSlack = 64;  // for the alignment of the first piece

}  // namespace crema
