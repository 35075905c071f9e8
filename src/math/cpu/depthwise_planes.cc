#include "math/cpu/depthwise_planes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/memory_format.h"
#include "math/cpu/lanes.h"
#include "math/relu_rule.h"
#include "math/vectorize.h"

namespace crema {
namespace {

// Columns c of a phase for which c * stride + residue - pad lies in [0, in).
struct Columns {
  int64_t begin;
  int64_t end;
};
Columns Inside(const DepthwiseShape::Axis& axis, int64_t residue) {
  const int64_t before = axis.pad - residue;  // elements of padding on the left
  const int64_t begin = before <= 0 ? 0 : (before + axis.stride - 1) / axis.stride;
  const int64_t after = before + axis.in;  // the first element on the right
  const int64_t end = after <= 0 ? 0 : (after + axis.stride - 1) / axis.stride;
  const int64_t first = std::min(begin, axis.phase);
  return {first, std::max(first, std::min(end, axis.phase))};
}

// Calls row(source or null, columns, first column's place in the plane's row, phase row).
template <typename Row>
[[gnu::always_inline]] inline void VisitPhaseRows(const DepthwiseShape& s, Row&& row) {
  int64_t at = 0;
  for (int64_t rh = 0; rh < s.h.stride; ++rh) {
    for (int64_t rw = 0; rw < s.w.stride; ++rw) {
      const Columns columns = Inside(s.w, rw);
      const int64_t offset = rw - s.w.pad;  // of column 0
      for (int64_t r = 0; r < s.h.phase; ++r, at += s.w.phase) {
        const int64_t y = r * s.h.stride + rh - s.h.pad;
        const bool outside = y < 0 || y >= s.h.in;
        row(outside ? 0 : y * s.w.in + offset, outside ? Columns{0, 0} : columns, at);
      }
    }
  }
}

constexpr int64_t kLanes = 32;
constexpr int64_t kVector = kDepthwiseSlack;
constexpr int kMost = 8;  // vectors of outputs that are kept in registers
using L = Lanes<kVector>;

CREMA_MULTIVERSION void AddScaled(const float* from, float factor, int64_t count,
                                  float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

CREMA_MULTIVERSION float Dot(const float* a, const float* b, int64_t count) {
  std::array<float, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) lanes[static_cast<size_t>(l)] += a[i + l] * b[i + l];
  }
  float sum = 0;
  for (; i < count; ++i) sum += a[i] * b[i];
  for (float lane : lanes) sum += lane;
  return sum;
}

template <int kCount>
[[gnu::always_inline]] inline void CopyPieces(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kCount) {
    const int64_t at = std::min(i, count - kCount);  // the last pieces may overlap
    std::memcpy(to + at, from + at, kCount * sizeof(float));
  }
}

// to[i] = from[i * stride]. A copy of unknown size takes longer than one of a few fixed ones.
[[gnu::always_inline]] inline void CopyApart(const float* from, int64_t stride, int64_t count,
                                             float* __restrict to) {
  if (stride == 1 && count >= 4) {
    return count >= kVector ? CopyPieces<kVector>(from, count, to)
           : count >= 8     ? CopyPieces<8>(from, count, to)
                            : CopyPieces<4>(from, count, to);
  }
  if (stride == 2) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
}

CREMA_MULTIVERSION void SplitRows(const DepthwiseShape& s, const float* plane, float* phases) {
  VisitPhaseRows(s, [&](int64_t from, Columns columns, int64_t to) {
    CopyApart(plane + from + columns.begin * s.w.stride, s.w.stride, columns.end - columns.begin,
              phases + to + columns.begin);
  });
}

// Returns the first column of the vector that has column c, a multiple of kVector. The last vector
// overlaps the one before, or extends beyond a short row.
int64_t ColumnOf(const DepthwiseShape& s, int64_t c) {
  return std::max<int64_t>(0, std::min(c, s.w.out - kVector));
}

[[gnu::always_inline]] inline void StoreOutputs(const DepthwisePlane& plane, int64_t at,
                                                L::Floats* sums) {
  if (plane.relu.on) ApplyRelu(plane.relu.slope, sums);
  if (at + kVector <= plane.room) {
    L::Store(*sums, plane.y + at);
    return;
  }
  float part[kVector];
  L::Store(*sums, part);
  for (int64_t c = 0; at + c < plane.room; ++c) plane.y[at + c] = part[c];
}

// Computes `kCount` vectors of outputs, or those that are left: then the last one is repeated.
template <int kCount>
[[gnu::always_inline]] inline void ConvolveSome(const DepthwiseVectors& v, int64_t first,
                                                const DepthwisePlane& plane) {
  const float* x[kCount];
  L::Floats sums[kCount];
  for (int i = 0; i < kCount; ++i) {
    x[i] = plane.phases + v.from[std::min<int64_t>(first + i, v.count - 1)];
    sums[i] = L::Floats{} + plane.bias;
  }
  for (int64_t tap = 0; tap < v.taps; ++tap) {
    const float weight = plane.weight[tap];
    const int64_t offset = v.tap_offsets[tap];
    for (int i = 0; i < kCount; ++i) {
      L::Floats value;
      L::Load(x[i] + offset, &value);
      sums[i] += weight * value;
    }
  }
  for (int i = 0; i < kCount && first + i < v.count; ++i) {
    StoreOutputs(plane, v.to[first + i], &sums[i]);
  }
}

// Computes kRows neighbouring rows of a vector of outputs, for kTaps rows of filter elements, with
// a stride of 1 from row to row: each vector of inputs is read once for each column of the filter.
template <int kTaps, int kRows>
[[gnu::always_inline]] inline void ConvolveRows(const DepthwiseShape& s, const DepthwiseVectors& v,
                                                const DepthwisePlane& plane, int64_t row,
                                                int64_t column) {
  L::Floats sums[kRows];
  for (auto& sum : sums) sum = L::Floats{} + plane.bias;
  const float* corner = plane.phases + row * s.w.phase + column;
  for (int64_t kw = 0; kw < s.w.kernel; ++kw) {
    const float* x = corner + v.tap_offsets[kw];
    L::Floats weights[kTaps];
    for (int t = 0; t < kTaps; ++t) weights[t] = L::Floats{} + plane.weight[t * s.w.kernel + kw];
#pragma GCC unroll 16
    for (int r = 0; r < kRows + kTaps - 1; ++r) {
      L::Floats value;
      L::Load(x + r * s.w.phase, &value);
#pragma GCC unroll 16
      for (int t = 0; t < kTaps; ++t) {
        if (r - t >= 0 && r - t < kRows) sums[r - t] += weights[t] * value;
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    StoreOutputs(plane, (row + r) * s.w.out + column, &sums[r]);
  }
}

template <int kTaps, int kRows>
[[gnu::always_inline]] inline void ConvolveColumns(const DepthwiseShape& s,
                                                   const DepthwiseVectors& v,
                                                   const DepthwisePlane& plane) {
  for (int64_t c = 0; c < s.w.out; c += kVector) {
    for (int64_t r = 0; r < s.h.out; r += kRows) {
      const int64_t row = std::min(r, s.h.out - kRows);
      ConvolveRows<kTaps, kRows>(s, v, plane, row, ColumnOf(s, c));
    }
  }
}

CREMA_MULTIVERSION void Convolve3(const DepthwiseShape& s, const DepthwiseVectors& v,
                                  const DepthwisePlane& plane) {
  s.h.out >= 7 ? ConvolveColumns<3, 7>(s, v, plane) : ConvolveColumns<3, 4>(s, v, plane);
}
CREMA_MULTIVERSION void Convolve5(const DepthwiseShape& s, const DepthwiseVectors& v,
                                  const DepthwisePlane& plane) {
  s.h.out >= 7 ? ConvolveColumns<5, 7>(s, v, plane) : ConvolveColumns<5, 4>(s, v, plane);
}
CREMA_MULTIVERSION void Convolve7(const DepthwiseShape& s, const DepthwiseVectors& v,
                                  const DepthwisePlane& plane) {
  s.h.out >= 7 ? ConvolveColumns<7, 7>(s, v, plane) : ConvolveColumns<7, 4>(s, v, plane);
}

CREMA_MULTIVERSION void ConvolveVectors(const DepthwiseVectors& v, const DepthwisePlane& plane) {
  int64_t first = 0;
  for (; first + kMost / 2 < v.count; first += kMost) ConvolveSome<kMost>(v, first, plane);
  for (; first < v.count; first += kMost / 2) ConvolveSome<kMost / 2>(v, first, plane);
}

}  // namespace

void SplitPhases(const DepthwiseShape& s, const float* plane, float* phases) {
  SplitRows(s, plane, phases);
}

void JoinPhases(const DepthwiseShape& s, const float* phases, float* plane) {
  std::fill_n(plane, s.InPlane(), 0.0F);
  VisitPhaseRows(s, [&](int64_t to, Columns columns, int64_t from) {
    const float* row = phases + from;
    for (int64_t c = columns.begin; c < columns.end; ++c) plane[to + c * s.w.stride] = row[c];
  });
}

void WidenRows(const DepthwiseShape& s, const float* plane, float* run) {
  std::fill_n(run, s.Run(), 0.0F);
  for (int64_t r = 0; r < s.h.out; ++r) {
    std::copy_n(plane + r * s.w.out, s.w.out, run + r * s.w.phase);
  }
}

int64_t DepthwiseVectorCount(const DepthwiseShape& s) {
  return s.h.out * ((s.w.out + kVector - 1) / kVector);
}

DepthwiseVectors MakeDepthwiseVectors(const DepthwiseShape& s, int64_t* memory) {
  const int64_t count = DepthwiseVectorCount(s);
  int64_t* from = memory;
  int64_t* to = from + count;
  int64_t* taps = to + count;
  for (int64_t r = 0; r < s.h.out; ++r) {
    for (int64_t c = 0; c < s.w.out; c += kVector) {
      *from++ = r * s.w.phase + ColumnOf(s, c);
      *to++ = r * s.w.out + ColumnOf(s, c);
    }
  }
  for (int64_t tap = 0; tap < s.Taps(); ++tap) taps[tap] = s.Offset(tap);
  return {count, s.Taps(), memory, memory + count, taps};
}

void ConvolvePlane(const DepthwiseShape& s, const DepthwiseVectors& vectors,
                   const DepthwisePlane& plane) {
  // Other processors have too few registers.
  const bool columns =
      ChannelBlock() == kVector && s.h.stride == 1 && s.h.dilation == 1 && s.h.out >= 4;
  if (columns && s.h.kernel == 3) return Convolve3(s, vectors, plane);
  if (columns && s.h.kernel == 5) return Convolve5(s, vectors, plane);
  if (columns && s.h.kernel == 7) return Convolve7(s, vectors, plane);
  ConvolveVectors(vectors, plane);
}

void SpreadTaps(const DepthwiseShape& s, const float* run, const float* weight, float* phases) {
  for (int64_t tap = 0; tap < s.Taps(); ++tap) {
    AddScaled(run, weight[tap], s.Run(), phases + s.Offset(tap));
  }
}

void AddTapProducts(const DepthwiseShape& s, const float* run, const float* phases, double* sums) {
  for (int64_t tap = 0; tap < s.Taps(); ++tap) {
    sums[tap] += static_cast<double>(Dot(run, phases + s.Offset(tap), s.Run()));
  }
}

}  // namespace crema
