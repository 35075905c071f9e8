#include "math/cpu/depthwise_planes.h"

#include <algorithm>
#include <array>

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
void VisitPhaseRows(const DepthwiseShape& s, Row&& row) {
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

template <int kTaps>
inline void AddSome(const float* phases, const int64_t* offset, const float* weight, int64_t count,
                    float* __restrict run) {
  std::array<const float*, kTaps> x;
  std::array<float, kTaps> w;
  for (size_t t = 0; t < kTaps; ++t) {
    x[t] = phases + offset[t];
    w[t] = weight[t];
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    float sum = run[i];
    for (size_t t = 0; t < kTaps; ++t) sum += w[t] * x[t][i];
    run[i] = sum;
  }
}
CREMA_MULTIVERSION void Add9(const float* phases, const int64_t* offset, const float* weight,
                             int64_t count, float* run) {
  AddSome<9>(phases, offset, weight, count, run);
}
CREMA_MULTIVERSION void Add3(const float* phases, const int64_t* offset, const float* weight,
                             int64_t count, float* run) {
  AddSome<3>(phases, offset, weight, count, run);
}
CREMA_MULTIVERSION void Add1(const float* phases, const int64_t* offset, const float* weight,
                             int64_t count, float* run) {
  AddSome<1>(phases, offset, weight, count, run);
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

}  // namespace

void SplitPhases(const DepthwiseShape& s, const float* plane, float* phases) {
  VisitPhaseRows(s, [&](int64_t from, Columns columns, int64_t to) {
    float* row = phases + to;
    std::fill(row, row + columns.begin, 0.0F);
    for (int64_t c = columns.begin; c < columns.end; ++c) row[c] = plane[from + c * s.w.stride];
    std::fill(row + columns.end, row + s.w.phase, 0.0F);
  });
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

void NarrowRows(const DepthwiseShape& s, const float* run, FusedRelu relu, float* plane) {
  for (int64_t r = 0; r < s.h.out; ++r) {
    const float* from = run + r * s.w.phase;
    float* to = plane + r * s.w.out;
    if (!relu.on) {
      std::copy_n(from, s.w.out, to);
      continue;
    }
    for (int64_t i = 0; i < s.w.out; ++i) {
      float value = from[i];
      ApplyRelu(relu.slope, &value);
      to[i] = value;
    }
  }
}

void AddTaps(const DepthwiseShape& s, const float* phases, const float* weight, float* run) {
  std::array<int64_t, 9> offset;
  for (int64_t tap = 0; tap < s.Taps();) {
    const int64_t left = s.Taps() - tap;
    const int64_t some = left >= 9 ? 9 : left >= 3 ? 3 : 1;
    for (int64_t t = 0; t < some; ++t) offset[static_cast<size_t>(t)] = s.Offset(tap + t);
    (some == 9 ? Add9 : some == 3 ? Add3 : Add1)(phases, offset.data(), weight + tap, s.Run(), run);
    tap += some;
  }
}

void SpreadTaps(const DepthwiseShape& s, const float* run, const float* weight, float* phases) {
  const int64_t zero = 0;
  for (int64_t tap = 0; tap < s.Taps(); ++tap) {
    Add1(run, &zero, weight + tap, s.Run(), phases + s.Offset(tap));
  }
}

void AddTapProducts(const DepthwiseShape& s, const float* run, const float* phases, double* sums) {
  for (int64_t tap = 0; tap < s.Taps(); ++tap) {
    sums[tap] += static_cast<double>(Dot(run, phases + s.Offset(tap), s.Run()));
  }
}

}  // namespace crema
