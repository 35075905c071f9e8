#include "layers/shape/mover.h"

#include <algorithm>
#include <cstring>

#include "core/bfloat16.h"
#include "core/parallel_for.h"
#include "math/broadcast_tiles.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

class CpuMover final : public Mover {
 public:
  explicit CpuMover(const ExecContext& context) : threads_(context.threads()) {}

  void Zero(const TensorView& to) const override {
    const size_t size = SizeOf(to.dtype());
    ParallelFor(threads_, to.count(), kGrain, [&](int64_t begin, int64_t end, int) {
      std::memset(static_cast<std::byte*>(to.raw()) + static_cast<size_t>(begin) * size, 0,
                  static_cast<size_t>(end - begin) * size);
    });
  }

  void Copy(const StridedBlock& block, const ConstTensorView& from,
            const TensorView& to) const override {
    DispatchStored(to.dtype(), [&]<typename T>(T) {
      CopyStrided(threads_, block, from.data<T>(), to.data<T>());
    });
  }

  void SumRepeated(const BroadcastMap& map, const ConstTensorView& from, const TensorView& to,
                   std::span<std::byte> scratch) const override {
    DispatchFloat(to.dtype(), [&]<typename T>(T) {
      const T* elements = from.data<T>();
      SumTiles(
          threads_, map, 0, to.count(),
          [=] { return [=](int64_t at, int64_t) { return elements + at; }; }, scratch,
          to.data<T>());
    });
  }

 private:
  const int threads_;
};

// Returns the map of `x`, repeated to `y`.
BroadcastMap RepeatMap(const Shape& x, const Shape& y) {
  const Shape* operand = &x;
  return MapOf(y, {&operand, 1});
}

}  // namespace

void MovingLayer::Forward(const ForwardArgs& args) const {
  MoveForward(CpuMover(args.context), args);
}

void MovingLayer::Backward(const BackwardArgs& args) const {
  MoveBackward(CpuMover(args.context), args);
}

void ElementMove::MoveForward(const Mover& mover, const ForwardArgs& args) const {
  mover.Copy(Move(args.inputs[0].shape()), args.inputs[0], args.outputs[0]);
}

void ElementMove::MoveBackward(const Mover& mover, const BackwardArgs& args) const {
  if (args.input_grads[0].empty()) return;
  mover.Copy(Move(args.input_grads[0].shape()).Reversed(), args.output_grads[0],
             args.input_grads[0]);
}

void RepeatingLayer::MoveForward(const Mover& mover, const ForwardArgs& args) const {
  const BroadcastMap map = RepeatMap(args.inputs[0].shape(), args.outputs[0].shape());
  if (map.count == 0) return;
  StridedBlock block;
  int64_t step = map.count;
  for (int a = 0; a < map.size; ++a) {
    step /= map.length[a];
    block.Add(map.length[a], map.stride[0][a], step);
  }
  mover.Copy(block, args.inputs[0], args.outputs[0]);
}

void RepeatingLayer::MoveBackward(const Mover& mover, const BackwardArgs& args) const {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  mover.SumRepeated(RepeatMap(dx.shape(), args.output_grads[0].shape()), args.output_grads[0], dx,
                    args.scratch);
}

size_t RepeatingLayer::BackwardScratch(const InferContext& context, const LayerInfo& info,
                                       int) const {
  const Shape& x = context.inputs[0].shape;
  return FoldScratch<double>(RepeatMap(x, info.outputs[0].shape), 0, x.count());
}

}  // namespace crema
