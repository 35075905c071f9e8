#include "layers/shape/strided_block.h"

#include <algorithm>
#include <cstring>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/parallel_for.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

// Position of one worker in a block.
class Cursor {
 public:
  Cursor(const StridedBlock& block, int64_t element)
      : block_(block), from_(block.from), to_(block.to) {
    for (int a = block.size - 1; a >= 0; --a) {
      const StridedBlock::Axis& axis = Axis(a);
      at_[static_cast<size_t>(a)] = element % axis.length;
      from_ += element % axis.length * axis.from;
      to_ += element % axis.length * axis.to;
      element /= axis.length;
    }
  }

  int64_t from() const { return from_; }
  int64_t to() const { return to_; }
  // Returns the number of elements up to the end of the last axis.
  int64_t Row() const {
    const int last = block_.size - 1;
    return Axis(last).length - at_[static_cast<size_t>(last)];
  }

  // Advances along the last axis, by at most Row() elements.
  void Advance(int64_t count) {
    Step(block_.size - 1, count);
    for (int a = block_.size - 1; a > 0 && at_[static_cast<size_t>(a)] == Axis(a).length; --a) {
      Step(a, -Axis(a).length);
      Step(a - 1, 1);
    }
  }

 private:
  const StridedBlock::Axis& Axis(int a) const { return block_.axes[static_cast<size_t>(a)]; }
  void Step(int a, int64_t count) {
    at_[static_cast<size_t>(a)] += count;
    from_ += count * Axis(a).from;
    to_ += count * Axis(a).to;
  }

  const StridedBlock& block_;
  std::array<int64_t, StridedBlock::kMaxAxes> at_{};
  int64_t from_;
  int64_t to_;
};

template <typename T>
void CopyRow(const StridedBlock::Axis& axis, int64_t count, const T* from, T* to) {
  if (axis.from == 1 && axis.to == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (axis.to == 1) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * axis.from];
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * axis.to] = from[i * axis.from];
  }
}

}  // namespace

void StridedBlock::Add(int64_t length, int64_t from_stride, int64_t to_stride) {
  if (length == 1) return;
  if (size > 0) {
    Axis& last = axes[static_cast<size_t>(size - 1)];
    if (last.from == length * from_stride && last.to == length * to_stride) {
      last = {last.length * length, from_stride, to_stride};
      return;
    }
  }
  CREMA_CHECK(size < kMaxAxes);
  axes[static_cast<size_t>(size++)] = {length, from_stride, to_stride};
}

StridedBlock StridedBlock::Reversed() const {
  StridedBlock reversed = *this;
  for (Axis& axis : reversed.axes) std::swap(axis.from, axis.to);
  std::swap(reversed.from, reversed.to);
  return reversed;
}

int64_t StridedBlock::count() const {
  int64_t product = 1;
  for (int a = 0; a < size; ++a) product *= axes[static_cast<size_t>(a)].length;
  return product;
}

template <typename T>
void CopyStrided(int threads, const StridedBlock& block, const T* from, T* to) {
  const int64_t count = block.count();
  if (block.size == 0) {
    to[block.to] = from[block.from];
    return;
  }
  const StridedBlock::Axis& last = block.axes[static_cast<size_t>(block.size - 1)];
  ParallelFor(threads, count, kGrain, [&](int64_t begin, int64_t end, int) {
    Cursor cursor(block, begin);
    while (begin < end) {
      const int64_t row = std::min(cursor.Row(), end - begin);
      CopyRow(last, row, from + cursor.from(), to + cursor.to());
      cursor.Advance(row);
      begin += row;
    }
  });
}

template void CopyStrided(int, const StridedBlock&, const float*, float*);
template void CopyStrided(int, const StridedBlock&, const double*, double*);
template void CopyStrided(int, const StridedBlock&, const BFloat16*, BFloat16*);

}  // namespace crema
