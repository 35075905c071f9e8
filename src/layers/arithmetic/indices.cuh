// indices.h on the GPU. Indices cannot be checked there in time: rows of invalid indices are NaN,
// and their gradients are left out.
#pragma once

#include <limits>

#include "layers/arithmetic/indices.h"
#include "math/cuda/launch.cuh"
#include "math/scratch.h"

namespace crema {

// With up to this many indices, each element of a gradient compares itself with all of them.
constexpr int64_t kFewPicked = 4;

// y[o, k, :] = x[o, indices[k], :] + bias; `bias` may be null.
template <typename T>
static void GatherRows(const CudaQueue& queue, const GatherSize& e, const T* indices, const T* x,
                       const T* bias, T* y) {
  const int64_t rows = e.rows, picked = e.picked, inner = e.inner;
  const bool from_end = e.from_end;
  ForElements(queue, "GatherRows", e.outer * picked * inner, [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t i = at % inner, k = at / inner % picked, o = at / inner / picked;
    const int64_t row = RowOfIndex(ToFloat(indices[k]), rows, from_end);
    float value = std::numeric_limits<float>::quiet_NaN();
    if (row >= 0) value = ToFloat(x[(o * rows + row) * inner + i]);
    if (bias != nullptr) value += ToFloat(bias[i]);
    y[at] = FromFloat<T>(value);
  });
}

// Writes to `order` the positions of the indices sorted by row; those of one row stay in order.
template <typename T>
static void SortByRow(const CudaQueue& queue, const GatherSize& e, const T* indices,
                      int32_t* order) {
  const int64_t rows = e.rows, picked = e.picked;
  const bool from_end = e.from_end;
  ForTeams(queue, "SortByRow", picked, [=] CREMA_HOST_DEVICE(const Team& team, int64_t k) {
    const int64_t row = RowOfIndex(ToFloat(indices[k]), rows, from_end);
    const int64_t rank = team.Sum(picked, [&](int64_t j) {
      const int64_t other = RowOfIndex(ToFloat(indices[j]), rows, from_end);
      return static_cast<int64_t>(other < row || (other == row && j < k));
    });
    team.For(1, [&](int64_t) { order[rank] = static_cast<int32_t>(k); });
  });
}

// Runs teams for each selected row, at its first position in `order`; each takes some elements.
template <typename T>
static void AddByOrder(const CudaQueue& queue, const GatherSize& e, const T* indices,
                       const int32_t* order, const T* dy, T* dx) {
  const int64_t rows = e.rows, picked = e.picked, inner = e.inner, each = e.outer * e.inner;
  const bool from_end = e.from_end;
  constexpr int64_t kTile = 4096;
  const int64_t tiles = (each + kTile - 1) / kTile;
  ForTeams(
      queue, "AddByOrder", picked * tiles, [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
        const int64_t first = index / tiles, begin = index % tiles * kTile;
        const auto row_at = [&](int64_t place) {
          return RowOfIndex(ToFloat(indices[order[place]]), rows, from_end);
        };
        const int64_t row = row_at(first);
        if (row < 0 || (first > 0 && row_at(first - 1) == row)) return;
        int64_t end = first + 1;
        for (int64_t limit = picked; end < limit;) {
          const int64_t middle = (end + limit) / 2;
          if (row_at(middle) == row) {
            end = middle + 1;
          } else {
            limit = middle;
          }
        }
        team.For(each - begin < kTile ? each - begin : kTile, [&](int64_t place_in_tile) {
          const int64_t o = (begin + place_in_tile) / inner, i = (begin + place_in_tile) % inner;
          T& to = dx[(o * rows + row) * inner + i];
          float sum = ToFloat(to);
          for (int64_t place = first; place < end; ++place) {
            sum += ToFloat(dy[(o * picked + order[place]) * inner + i]);
          }
          to = FromFloat<T>(sum);
        });
      });
}

template <typename T>
static void AddFew(const CudaQueue& queue, const GatherSize& e, const T* indices, const T* dy,
                   T* dx) {
  const int64_t rows = e.rows, picked = e.picked, inner = e.inner;
  const bool from_end = e.from_end;
  ForElements(queue, "AddFew", e.outer * rows * inner, [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t i = at % inner, row = at / inner % rows, o = at / inner / rows;
    float sum = ToFloat(dx[at]);
    for (int64_t k = 0; k < picked; ++k) {
      if (RowOfIndex(ToFloat(indices[k]), rows, from_end) != row) continue;
      sum += ToFloat(dy[(o * picked + k) * inner + i]);
    }
    dx[at] = FromFloat<T>(sum);
  });
}

// Returns the bytes of scratch of ScatterAddRows.
inline size_t ScatterScratch(int64_t picked) {
  return picked <= kFewPicked ? 0 : ScratchBytes<int32_t>(picked) + kScratchSlack;
}

// dx[o, indices[k], :] += dy[o, k, :], in the order of k.
template <typename T>
void ScatterAddRows(const CudaQueue& queue, const GatherSize& e, const T* indices, const T* dy,
                    std::span<std::byte> scratch, T* dx) {
  if (e.picked <= kFewPicked) return AddFew(queue, e, indices, dy, dx);
  auto* order = ScratchCutter(scratch).Take<int32_t>(e.picked);
  SortByRow(queue, e, indices, order);
  AddByOrder(queue, e, indices, order, dy, dx);
}

}  // namespace crema
