#include "math/cpu/blocked_winograd_tiles.h"

#include <algorithm>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "math/cpu/blocked_winograd_lanes.h"
#include "math/relu_rule.h"

namespace crema::blocked_winograd {
namespace {

constexpr int64_t kStripColumns = kOutputs * kRun + 2;
constexpr int64_t kStripRow = (kStripColumns | 1) * kLanes;
alignas(64) constexpr float kZeros[kLanes] = {};

// strip[i][x] = B^T of column x of the run's inputs: neighbouring tiles share columns.
CREMA_AVX512 void TransformColumns(const InputPlane& plane, const TileRun& run, float* strip) {
  const int64_t top = run.row * kOutputs - plane.pad_h;
  const int64_t left = run.column * kOutputs - plane.pad_w;
  const int64_t columns = run.count * kOutputs + 2;
  const int64_t begin = std::clamp<int64_t>(-left, 0, columns);
  const int64_t end = std::clamp<int64_t>(plane.width - left, begin, columns);
  // A row outside is one vector of zeros, read repeatedly.
  const float* rows[6];
  int64_t steps[6];
  for (int64_t i = 0; i < 6; ++i) {
    const bool inside = top + i >= 0 && top + i < plane.height;
    steps[i] = inside ? kLanes : 0;
    rows[i] = inside ? plane.data + ((top + i) * plane.width + left + begin) * kLanes : kZeros;
  }
  for (int64_t i = 0; i < 6; ++i) {
    float* row = strip + i * kStripRow;
    std::fill(row, row + begin * kLanes, 0.0F);
    std::fill(row + end * kLanes, row + columns * kLanes, 0.0F);
  }
  for (int64_t x = begin; x < end; ++x) {
    Lanes d[6], to[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      Load(rows[i], &d[i]);
      rows[i] += steps[i];
    }
    InputLine(d, to);
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) Store(to[i], strip + i * kStripRow + x * kLanes);
  }
}

// Writes one row of four pixels, of which `columns` lie in the plane.
[[gnu::always_inline]] inline void FinishPixels(const OutputPlane& plane, const Lanes& bias,
                                                int64_t offset, int64_t columns,
                                                Lanes (&pixels)[4]) {
  float* to = plane.data + offset;
#pragma GCC unroll 4
  for (int64_t b = 0; b < 4; ++b) {
    if (b >= columns) break;
    Lanes value = pixels[b] + bias;
    if (plane.residual != nullptr) {
      Lanes residual;
      Load(plane.residual + offset + b * kLanes, &residual);
      value += residual;
    }
    if (plane.relu) ApplyRelu(plane.slope, &value);
    Store(value, to + b * kLanes);
  }
}

#if defined(__x86_64__)

CREMA_AVX512 [[gnu::always_inline]] inline void GatherFilters(const FilterBlock& filters,
                                                              Lanes (&elements)[9]) {
  const auto present = static_cast<__mmask16>((1U << filters.count) - 1);
  const __m512i numbers = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i offsets =
      _mm512_mullo_epi32(numbers, _mm512_set1_epi32(static_cast<int>(filters.stride)));
#pragma GCC unroll 9
  for (int i = 0; i < 9; ++i) {
    const __m512 values =
        _mm512_mask_i32gather_ps(_mm512_setzero_ps(), present, offsets,
                                 filters.data + (filters.flipped ? 8 - i : i), sizeof(float));
    std::memcpy(&elements[i], &values, sizeof(values));
  }
}

#else

inline void GatherFilters(const FilterBlock& filters, Lanes (&elements)[9]) {
  float plain[9][kLanes] = {};
  for (int64_t l = 0; l < filters.count; ++l) {
    const float* filter = filters.data + l * filters.stride;
    for (int64_t i = 0; i < 9; ++i) plain[i][l] = filter[filters.flipped ? 8 - i : i];
  }
  for (int i = 0; i < 9; ++i) Load(plain[i], &elements[i]);
}

#endif

}  // namespace

CREMA_AVX512 void TransformInputs(const InputPlane& plane, const TileRun& run, float* points,
                                  int64_t point) {
  alignas(64) float strip[6 * kStripRow];
  TransformColumns(plane, run, strip);
  for (int64_t i = 0; i < 6; ++i) {
    const float* from = strip + i * kStripRow;
    float* row = points + 6 * i * point;
    for (int64_t t = 0; t < run.count; ++t, from += kOutputs * kLanes, row += kLanes) {
      Lanes d[6], to[6];
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) Load(from + j * kLanes, &d[j]);
      InputLine(d, to);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) Store(to[j], row + j * point);
    }
  }
}

CREMA_AVX512 void TransformOutputs(const float* points, int64_t point, const TileRun& run,
                                   const OutputPlane& plane) {
  Lanes bias;
  Load(plane.bias, &bias);
  const int64_t top = run.row * kOutputs;
  const int64_t rows = std::min(kOutputs, plane.height - top);
  for (int64_t t = 0; t < run.count; ++t, points += kLanes) {
    const int64_t left = (run.column + t) * kOutputs;
    Lanes half[6][4];
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) {
      Lanes m[6];
#pragma GCC unroll 6
      for (int i = 0; i < 6; ++i) Load(points + (6 * i + j) * point, &m[i]);
      OutputLine(m, half[j]);
    }
#pragma GCC unroll 4
    for (int64_t a = 0; a < kOutputs; ++a) {
      if (a >= rows) break;
      const Lanes m[6] = {half[0][a], half[1][a], half[2][a], half[3][a], half[4][a], half[5][a]};
      Lanes pixels[4];
      OutputLine(m, pixels);
      FinishPixels(plane, bias, ((top + a) * plane.width + left) * kLanes, plane.width - left,
                   pixels);
    }
  }
}

CREMA_AVX512 void TransformOutputGradients(const InputPlane& plane, const TileRun& run,
                                           float* points, int64_t point) {
  const int64_t top = run.row * kOutputs;
  const int64_t rows = std::min(kOutputs, plane.height - top);
  for (int64_t t = 0; t < run.count; ++t, points += kLanes) {
    const int64_t left = (run.column + t) * kOutputs;
    const int64_t columns = std::min(kOutputs, plane.width - left);
    const float* from = plane.data + (top * plane.width + left) * kLanes;
    Lanes half[4][6];
#pragma GCC unroll 4
    for (int64_t b = 0; b < kOutputs; ++b) {
      Lanes y[4];
#pragma GCC unroll 4
      for (int64_t a = 0; a < kOutputs; ++a) {
        const bool inside = a < rows && b < columns;
        Load(inside ? from + (a * plane.width + b) * kLanes : kZeros, &y[a]);
      }
      OutputGradientLine(y, half[b]);
    }
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) {
      const Lanes y[4] = {half[0][i], half[1][i], half[2][i], half[3][i]};
      Lanes to[6];
      OutputGradientLine(y, to);
#pragma GCC unroll 6
      for (int j = 0; j < 6; ++j) Store(to[j], points + (6 * i + j) * point);
    }
  }
}

CREMA_AVX512 void TransformFilters(const FilterBlock& filters, float* points, int64_t point) {
  Lanes elements[9];
  GatherFilters(filters, elements);
  Lanes factors;
  Load(filters.factors, &factors);
  for (Lanes& element : elements) element *= factors;
  Lanes half[3][6];
#pragma GCC unroll 3
  for (int j = 0; j < 3; ++j) {
    Lanes g[3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) g[i] = elements[3 * i + j];
    FilterLine(g, half[j]);
  }
#pragma GCC unroll 6
  for (int i = 0; i < 6; ++i) {
    const Lanes g[3] = {half[0][i], half[1][i], half[2][i]};
    Lanes to[6];
    FilterLine(g, to);
#pragma GCC unroll 6
    for (int j = 0; j < 6; ++j) Store(to[j], points + (6 * i + j) * point);
  }
}

CREMA_AVX512 void AddFilterGradients(const float* points, int64_t point,
                                     const FilterGradientBlock& filters) {
  alignas(64) float elements[9][kLanes];
  Lanes half[6][3];
#pragma GCC unroll 6
  for (int j = 0; j < 6; ++j) {
    Lanes p[6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; ++i) Load(points + (6 * i + j) * point, &p[i]);
    FilterGradientLine(p, half[j]);
  }
#pragma GCC unroll 3
  for (int i = 0; i < 3; ++i) {
    const Lanes p[6] = {half[0][i], half[1][i], half[2][i], half[3][i], half[4][i], half[5][i]};
    Lanes to[3];
    FilterGradientLine(p, to);
#pragma GCC unroll 3
    for (int j = 0; j < 3; ++j) Store(to[j], elements[3 * i + j]);
  }
  for (int64_t l = 0; l < filters.count; ++l) {
    float* filter = filters.data + l * filters.stride;
    for (int64_t i = 0; i < 9; ++i) filter[i] += elements[i][l];
  }
}

}  // namespace crema::blocked_winograd
