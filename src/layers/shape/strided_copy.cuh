// As CopyStrided of strided_block.h, on the GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "layers/shape/strided_block.h"
#include "math/cuda/launch.cuh"

namespace crema {
namespace strided {

// Axes of a block that kernels loop over with a number known to the compiler.
template <int kAxes>
struct Axes {
  int64_t extent[kAxes];
  int64_t from[kAxes];
  int64_t to[kAxes];

  // Adds the places of element `i` to the offsets.
  CREMA_HOST_DEVICE void Find(int64_t i, int64_t* read, int64_t* written) const {
    for (int a = kAxes - 1; a >= 0; --a) {
      const int64_t place = a == 0 ? i : i % extent[a];
      i /= extent[a];
      *read += place * from[a];
      *written += place * to[a];
    }
  }
};

// The axes of a block but two, which may be -1; those that are too many are of extent 1.
template <int kAxes>
Axes<kAxes> AxesWithout(const StridedBlock& block, int first, int second) {
  Axes<kAxes> axes{};
  int at = kAxes - 1;
  for (int a = block.size - 1; a >= 0; --a) {
    if (a == first || a == second) continue;
    const StridedBlock::Axis& axis = block.axes[static_cast<size_t>(a)];
    axes.extent[at] = axis.extent;
    axes.from[at] = axis.from;
    axes.to[at--] = axis.to;
  }
  for (; at >= 0; --at) axes.extent[at] = 1;
  return axes;
}

template <int kAxes, typename T>
static void CopyEach(const CudaQueue& queue, const StridedBlock& block, const T* from, T* to) {
  const Axes<kAxes> axes = AxesWithout<kAxes>(block, -1, -1);
  ForElements(queue, "CopyStrided", block.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    int64_t read = 0, written = 0;
    axes.Find(i, &read, &written);
    to[written] = from[read];
  });
}

constexpr int64_t kSide = 16;  // of a tile
static_assert(kSide * kSide == Team::kThreads);

// Where an element lies in a tile: neighbours in either direction are in different banks.
CREMA_HOST_DEVICE inline int64_t InTile(int64_t i, int64_t j) { return j * kSide + (i ^ j); }

// A block whose fastest axes differ, in tiles of these two axes: teams read along one and write
// along the other.
template <int kOuter, typename T>
static void CopyTiles(const CudaQueue& queue, const StridedBlock& block, int read_axis,
                      int written_axis, const T* from, T* to) {
  const Axes<kOuter> outer = AxesWithout<kOuter>(block, read_axis, written_axis);
  const StridedBlock::Axis r = block.axes[static_cast<size_t>(read_axis)];
  const StridedBlock::Axis w = block.axes[static_cast<size_t>(written_axis)];
  const int64_t r_tiles = (r.extent + kSide - 1) / kSide, w_tiles = (w.extent + kSide - 1) / kSide;
  const int64_t teams = block.count() / (r.extent * w.extent) * r_tiles * w_tiles;
  ForTeams(queue, "CopyTiles", teams, [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
    const int64_t r_first = index % r_tiles * kSide;
    const int64_t w_first = index / r_tiles % w_tiles * kSide;
    int64_t read = r_first + w_first * w.from, written = w_first + r_first * r.to;
    outer.Find(index / r_tiles / w_tiles, &read, &written);
    const int64_t r_left = r.extent - r_first, w_left = w.extent - w_first;
    float* tile = team.Shared();
    team.For(Team::kThreads, [&](int64_t t) {
      const int64_t i = t % kSide, j = t / kSide;
      if (i < r_left && j < w_left) tile[InTile(i, j)] = ToFloat(from[read + i + j * w.from]);
    });
    team.For(Team::kThreads, [&](int64_t t) {
      const int64_t i = t / kSide, j = t % kSide;
      if (i < r_left && j < w_left) to[written + j + i * r.to] = FromFloat<T>(tile[InTile(i, j)]);
    });
  });
}

// The axes whose elements are neighbours where they are read and where they are written; -1: none.
struct Fastest {
  explicit Fastest(const StridedBlock& block) {
    for (int a = 0; a < block.size; ++a) {
      const StridedBlock::Axis& axis = block.axes[static_cast<size_t>(a)];
      if (axis.from == 1) read = a;
      if (axis.to == 1) written = a;
      if (axis.from == 1 || axis.to == 1) least = std::min(least, axis.extent);
    }
  }
  // Whether tiles of both pay.
  bool Differ() const { return read >= 0 && written >= 0 && read != written && least >= 8; }

  int read = -1;
  int written = -1;
  int64_t least = INT64_MAX;  // of their extents
};

}  // namespace strided

// T is float, __half or __nv_bfloat16. The places may not overlap.
template <typename T>
void CopyStrided(const CudaQueue& queue, const StridedBlock& block, const T* from, T* to) {
  if (block.count() == 0) return;
  constexpr int kOuter = 3;
  if (const strided::Fastest fastest(block); fastest.Differ() && block.size <= kOuter + 2) {
    return strided::CopyTiles<kOuter>(queue, block, fastest.read, fastest.written, from, to);
  }
  switch (block.size) {
    case 0:
    case 1:
      return strided::CopyEach<1>(queue, block, from, to);
    case 2:
      return strided::CopyEach<2>(queue, block, from, to);
    case 3:
      return strided::CopyEach<3>(queue, block, from, to);
    case 4:
      return strided::CopyEach<4>(queue, block, from, to);
    case 5:
    case 6:
      return strided::CopyEach<6>(queue, block, from, to);
    default:
      return strided::CopyEach<StridedBlock::kMaxAxes>(queue, block, from, to);
  }
}

}  // namespace crema
