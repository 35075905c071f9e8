#include "math/cpu/depthwise_planes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "math/cpu/lanes.h"
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
    const int64_t at = v.to[first + i];
    if (plane.relu.on) sums[i] = sums[i] > 0 ? sums[i] : plane.relu.slope * sums[i];
    if (at + kVector <= plane.room) {
      L::Store(sums[i], plane.y + at);
    } else {
      float part[kVector];
      L::Store(sums[i], part);
      for (int64_t c = 0; at + c < plane.room; ++c) plane.y[at + c] = part[c];
    }
  }
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
      // The last one overlaps the one before, or extends beyond a short row.
      const int64_t column = std::max<int64_t>(0, std::min(c, s.w.out - kVector));
      *from++ = r * s.w.phase + column;
      *to++ = r * s.w.out + column;
    }
  }
  for (int64_t tap = 0; tap < s.Taps(); ++tap) taps[tap] = s.Offset(tap);
  return {count, s.Taps(), memory, memory + count, taps};
}

void ConvolvePlane(const DepthwiseVectors& vectors, const DepthwisePlane& plane) {
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
