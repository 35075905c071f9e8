// Layers that only move elements (mover.h), on the GPU.
#include <algorithm>
#include <cstdint>

#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "layers/shape/axis_parts.h"
#include "layers/shape/mover.h"
#include "math/cuda/broadcast_map.cuh"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// Axes of a block, their number known at compile time.
template <int kAxes>
struct Axes {
  int64_t length[kAxes];
  int64_t from[kAxes];
  int64_t to[kAxes];

  // Adds the positions of element `i` to `read` and `written`.
  CREMA_HOST_DEVICE void Find(int64_t i, int64_t* read, int64_t* written) const {
    for (int a = kAxes - 1; a >= 0; --a) {
      const int64_t place = a == 0 ? i : i % length[a];
      i /= length[a];
      *read += place * from[a];
      *written += place * to[a];
    }
  }
};

// Returns the axes of a block except two, which may be -1. Surplus axes have size 1.
template <int kAxes>
Axes<kAxes> AxesWithout(const StridedBlock& block, int first, int second) {
  Axes<kAxes> axes{};
  int at = kAxes - 1;
  for (int a = block.size - 1; a >= 0; --a) {
    if (a == first || a == second) continue;
    const StridedBlock::Axis& axis = block.axes[static_cast<size_t>(a)];
    axes.length[at] = axis.length;
    axes.from[at] = axis.from;
    axes.to[at--] = axis.to;
  }
  for (; at >= 0; --at) axes.length[at] = 1;
  return axes;
}

template <int kAxes, typename T>
void CopyEach(const CudaQueue& queue, const StridedBlock& block, const T* from, T* to) {
  const Axes<kAxes> axes = AxesWithout<kAxes>(block, -1, -1);
  ForElements(queue, "CopyStrided", block.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    int64_t read = 0, written = 0;
    axes.Find(i, &read, &written);
    to[written] = from[read];
  });
}

constexpr int64_t kSide = 16;  // of a tile, in elements
static_assert(kSide * kSide == Team::kThreads);

// Returns the position of an element in a tile. Neighbours in either direction are in different
// banks.
CREMA_HOST_DEVICE inline int64_t InTile(int64_t i, int64_t j) { return j * kSide + (i ^ j); }

// Copies a block whose innermost axes differ, in tiles over these two axes: teams read along one
// and write along the other.
template <int kOuter, typename T>
void CopyTiles(const CudaQueue& queue, const StridedBlock& block, int read_axis, int written_axis,
               const T* from, T* to) {
  const Axes<kOuter> outer = AxesWithout<kOuter>(block, read_axis, written_axis);
  const StridedBlock::Axis r = block.axes[static_cast<size_t>(read_axis)];
  const StridedBlock::Axis w = block.axes[static_cast<size_t>(written_axis)];
  const int64_t r_tiles = (r.length + kSide - 1) / kSide, w_tiles = (w.length + kSide - 1) / kSide;
  const int64_t teams = block.count() / (r.length * w.length) * r_tiles * w_tiles;
  ForTeams(queue, "CopyTiles", teams, [=] CREMA_HOST_DEVICE(const Team& team, int64_t index) {
    const int64_t r_first = index % r_tiles * kSide;
    const int64_t w_first = index / r_tiles % w_tiles * kSide;
    int64_t read = r_first + w_first * w.from, written = w_first + r_first * r.to;
    outer.Find(index / r_tiles / w_tiles, &read, &written);
    const int64_t r_left = r.length - r_first, w_left = w.length - w_first;
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

// The axes with stride 1 in the source and in the destination; -1 means none.
struct Fastest {
  explicit Fastest(const StridedBlock& block) {
    for (int a = 0; a < block.size; ++a) {
      const StridedBlock::Axis& axis = block.axes[static_cast<size_t>(a)];
      if (axis.from == 1) read = a;
      if (axis.to == 1) written = a;
      if (axis.from == 1 || axis.to == 1) least = std::min(least, axis.length);
    }
  }
  // Returns true if tiles over both axes pay.
  bool Differ() const { return read >= 0 && written >= 0 && read != written && least >= 8; }

  int read = -1;
  int written = -1;
  int64_t least = INT64_MAX;  // size of these axes
};

template <typename T>
void CopyStrided(const CudaQueue& queue, const StridedBlock& block, const T* from, T* to) {
  if (block.count() == 0) return;
  constexpr int kOuter = 3;
  if (const Fastest fastest(block); fastest.Differ() && block.size <= kOuter + 2) {
    return CopyTiles<kOuter>(queue, block, fastest.read, fastest.written, from, to);
  }
  switch (block.size) {
    case 0:
    case 1:
      return CopyEach<1>(queue, block, from, to);
    case 2:
      return CopyEach<2>(queue, block, from, to);
    case 3:
      return CopyEach<3>(queue, block, from, to);
    case 4:
      return CopyEach<4>(queue, block, from, to);
    case 5:
    case 6:
      return CopyEach<6>(queue, block, from, to);
    default:
      return CopyEach<StridedBlock::kMaxAxes>(queue, block, from, to);
  }
}

template <typename T>
void SumEach(const CudaQueue& queue, const BroadcastMap& map, int64_t count, const T* from, T* to) {
  SumRepetitions(
      queue, map, 0, count, [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(from[i]); }, {}, to);
}

class GpuMover : public Mover {
 public:
  explicit GpuMover(const ExecContext& context) : queue_(BoundQueue(context)) {}

  void Zero(const TensorView& to) const override {
    DispatchCudaFloat(to.dtype(),
                      [&]<typename T>(T) { ZeroElements(queue_, to.count(), Elements<T>(to)); });
  }
  void Copy(const StridedBlock& block, const ConstTensorView& from,
            const TensorView& to) const override {
    DispatchCudaFloat(to.dtype(), [&]<typename T>(T) {
      CopyStrided(queue_, block, Elements<T>(from) + block.from, Elements<T>(to) + block.to);
    });
  }
  void SumRepeated(const BroadcastMap& map, const ConstTensorView& from, const TensorView& to,
                   std::span<std::byte>) const override {
    DispatchCudaFloat(to.dtype(), [&]<typename T>(T) {
      SumEach(queue_, map, to.count(), Elements<T>(from), Elements<T>(to));
    });
  }

 private:
  const CudaQueue& queue_;
};

// Moves blobs in channels last.
class ChannelsLastMover final : public GpuMover {
 public:
  using GpuMover::GpuMover;
  Shape Stored(const Shape& shape) const override { return {shape.With(1, 1).count(), shape[1]}; }
};

template <typename MoverType>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  static_cast<const MovingLayer&>(layer).MoveForward(MoverType(args.context), args);
}

template <typename MoverType>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  static_cast<const MovingLayer&>(layer).MoveBackward(MoverType(args.context), args);
}

template <typename MoverType>
ImplementationPtr MakeImplementation() {
  return MakeCudaImplementation(ForwardOnGpu<MoverType>, BackwardOnGpu<MoverType>);
}

template <int (*kAxis)(const Layer&, const Shape&)>
Support IsForChannels(const OpDesc& query) {
  if (kAxis(query.layer, query.context.inputs[0].shape) == 1) return {};
  return Support::No("is for axis 1");
}

}  // namespace

void RegisterMovesCuda(Registry& registry) {
  registry.AddImplementation(
      "Concat", InChannelsLast(MakeImplementation<ChannelsLastMover>(), IsForChannels<ConcatAxis>));
  registry.AddImplementation(
      "Slice", InChannelsLast(MakeImplementation<ChannelsLastMover>(), IsForChannels<SliceAxis>));
  for (const char* type :
       {"Concat", "Crop", "Expand", "Permute", "Reorg", "Reverse", "ShuffleChannel", "Silence",
        "Slice", "StridedSlice", "Tile", "Transpose"}) {
    registry.AddImplementation(type, MakeImplementation<GpuMover>());
  }
}

}  // namespace crema
