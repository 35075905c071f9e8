// Transposes matrices, optionally with a conversion of their elements.
#pragma once

#include "math/cuda/group_sums.cuh"
#include "math/cuda/launch.cuh"

namespace crema {

// Contiguous row-major matrices.
struct Matrices {
  int64_t count, rows, columns;
};

namespace transposing {

template <typename From, typename To>
static void TransposeElements(const CudaQueue& queue, const Matrices& m, const From* x, To* y) {
  const int64_t rows = m.rows, columns = m.columns;
  ForElements(queue, "TransposeElements", m.count * rows * columns,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t of_y = Quotient(i, rows), r = i - of_y * rows;
                const int64_t matrix = Quotient(of_y, columns), c = of_y - matrix * columns;
                y[i] = FromFloat<To>(ToFloat(x[(matrix * rows + r) * columns + c]));
              });
}

constexpr int64_t kSide = 16;  // of a tile
static_assert(kSide * kSide == Team::kThreads);

// Returns the place of an element in a tile: neighbours in either direction are in different banks.
CREMA_HOST_DEVICE inline int64_t InTile(int64_t i, int64_t j) { return j * kSide + (i ^ j); }

// Transposes by tiles, which teams read along rows and write along columns.
template <typename From, typename To>
static void TransposeTiles(const CudaQueue& queue, const Matrices& m, const From* x, To* y) {
  const int64_t rows = m.rows, columns = m.columns;
  const int64_t down = (rows + kSide - 1) / kSide, across = (columns + kSide - 1) / kSide;
  ForTeams(queue, "TransposeTiles", m.count * down * across,
           [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
             const int64_t matrix = index / across / down * rows * columns;
             const int64_t c0 = index % across * kSide, r0 = index / across % down * kSide;
             float* tile = team.Shared();
             team.For(Team::kThreads, [&](int64_t t) {
               const int64_t i = t % kSide, j = t / kSide, c = c0 + i, r = r0 + j;
               if (c >= columns || r >= rows) return;
               tile[InTile(i, j)] = ToFloat(x[matrix + r * columns + c]);
             });
             team.For(Team::kThreads, [&](int64_t t) {
               const int64_t i = t / kSide, j = t % kSide, c = c0 + i, r = r0 + j;
               if (c >= columns || r >= rows) return;
               y[matrix + c * rows + r] = FromFloat<To>(tile[InTile(i, j)]);
             });
           });
}

}  // namespace transposing

// y = the transpose of each matrix of x. Queued; the memory may not overlap.
template <typename From, typename To>
static void Transpose(const CudaQueue& queue, const Matrices& m, const From* x, To* y) {
  constexpr int64_t kLeast = 8;  // rows and columns worth a tile
  const bool tiles = m.rows >= kLeast && m.columns >= kLeast;
  (tiles ? transposing::TransposeTiles<From, To>
         : transposing::TransposeElements<From, To>)(queue, m, x, y);
}

}  // namespace crema
