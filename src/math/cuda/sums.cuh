// Row and column sums of matrices, added to gradients of parameters.
#pragma once

#include "math/cuda/launch.cuh"

namespace crema {

// sums[c] += the sum of term(r, c) over 0 <= r < rows, for 0 <= c < columns; `term` returns float.
// A team handles kTeamColumns columns, so that neighbouring threads read neighbouring columns.
template <typename T, typename Term>
static void AddColumnSums(const CudaQueue& queue, int64_t rows, int64_t columns, const Term& term,
                          T* sums) {
  constexpr int64_t kTeamColumns = Team::kWarp, kParts = Team::kThreads / kTeamColumns;
  const int64_t teams = (columns + kTeamColumns - 1) / kTeamColumns;
  ForTeams(queue, "AddColumnSums", teams, [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
    const int64_t first = index * kTeamColumns;
    float* parts = team.Shared();
    team.For(Team::kThreads, [&](int64_t t) {
      const int64_t c = first + t % kTeamColumns;
      float sum = 0;
      for (int64_t r = t / kTeamColumns; r < rows && c < columns; r += kParts) sum += term(r, c);
      parts[t] = sum;
    });
    team.For(kTeamColumns, [&](int64_t t) {
      if (first + t >= columns) return;
      float sum = ToFloat(sums[first + t]);
      for (int64_t part = 0; part < kParts; ++part) sum += parts[part * kTeamColumns + t];
      sums[first + t] = FromFloat<T>(sum);
    });
  });
}

// sums[c] += the sum of column c of a matrix, whose rows are `stride` elements apart.
template <typename T>
static void AddColumnSums(const CudaQueue& queue, int64_t rows, int64_t columns, int64_t stride,
                          const T* matrix, T* sums) {
  AddColumnSums(
      queue, rows, columns,
      [=] CREMA_HOST_DEVICE(int64_t r, int64_t c) { return ToFloat(matrix[r * stride + c]); },
      sums);
}

// sums[r] += the sum of term(r, c) over 0 <= c < columns, one team for each row.
template <typename T, typename Term>
static void AddRowSums(const CudaQueue& queue, int64_t rows, int64_t columns, const Term& term,
                       T* sums) {
  ForTeamsOf(queue, "AddRowSums", rows, columns,
             [=] CREMA_HOST_DEVICE(const Team& team, int64_t r) {
               const float sum = team.Sum(columns, [&](int64_t c) { return term(r, c); });
               team.For(1, [&](int64_t) { sums[r] = FromFloat<T>(ToFloat(sums[r]) + sum); });
             });
}

}  // namespace crema
