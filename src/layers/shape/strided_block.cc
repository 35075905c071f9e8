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

constexpr int64_t kPiece = 64;  // rows and columns of a matrix that are transposed at a time

// to[r * to_stride + c] = from[c * from_stride + r], by tiles in the first-level cache.
template <typename T>
void TransposePiece(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to,
                    int64_t to_stride) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const T* source = from + c0 * from_stride + r0;
      T* target = to + r0 * to_stride + c0;
      if (rows - r0 < kTile || columns - c0 < kTile) {
        for (int64_t r = 0; r < std::min(kTile, rows - r0); ++r) {
          for (int64_t c = 0; c < std::min(kTile, columns - c0); ++c) {
            target[r * to_stride + c] = source[c * from_stride + r];
          }
        }
        continue;
      }
      T tile[kTile][kTile];
      for (int64_t c = 0; c < kTile; ++c) {
        std::memcpy(tile[c], source + c * from_stride, sizeof(tile[c]));
      }
      for (int64_t r = 0; r < kTile; ++r) {
        for (int64_t c = 0; c < kTile; ++c) target[r * to_stride + c] = tile[c][r];
      }
    }
  }
}

// Copies with two axes exchanged: elements of `near_source` are neighbours in the source, those of
// `near_target` in the destination.
template <typename T>
void CopyTransposed(int threads, const StridedBlock& block, int near_source, int near_target,
                    const T* from, T* to) {
  const StridedBlock::Axis& r = block.axes[static_cast<size_t>(near_source)];
  const StridedBlock::Axis& c = block.axes[static_cast<size_t>(near_target)];
  StridedBlock pieces;
  pieces.from = block.from;
  pieces.to = block.to;
  for (int a = 0; a < block.size; ++a) {
    if (a == near_source || a == near_target) continue;
    pieces.axes[static_cast<size_t>(pieces.size++)] = block.axes[static_cast<size_t>(a)];
  }
  const int64_t of_rows = (r.length + kPiece - 1) / kPiece;
  const int64_t of_columns = (c.length + kPiece - 1) / kPiece;
  const int64_t each = of_rows * of_columns;
  const int64_t grain = kGrain / (std::min(kPiece, r.length) * std::min(kPiece, c.length)) + 1;
  ParallelFor(threads, pieces.count() * each, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const Cursor cursor(pieces, piece / each);
      const int64_t row = piece % each / of_columns * kPiece;
      const int64_t column = piece % of_columns * kPiece;
      TransposePiece(std::min(kPiece, r.length - row), std::min(kPiece, c.length - column),
                     from + cursor.from() + row + column * c.from, c.from,
                     to + cursor.to() + row * r.to + column, r.to);
    }
  });
}

// Returns the first axis whose elements are neighbours in the source, or in the destination; -1 if
// there is none.
int NearAxis(const StridedBlock& block, int64_t StridedBlock::Axis::*stride) {
  for (int a = 0; a < block.size; ++a) {
    if (block.axes[static_cast<size_t>(a)].*stride == 1) return a;
  }
  return -1;
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
  constexpr int64_t kFewest = 8;  // with fewer rows, long columns are copied as fast
  const int near_source = NearAxis(block, &StridedBlock::Axis::from);
  const int near_target = NearAxis(block, &StridedBlock::Axis::to);
  if (near_source >= 0 && near_target >= 0 && near_source != near_target &&
      block.axes[static_cast<size_t>(near_source)].length >= kFewest) {
    return CopyTransposed(threads, block, near_source, near_target, from, to);
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
