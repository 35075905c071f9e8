#include "layers/shape/mover.h"

#include <algorithm>
#include <cstring>

#include "core/bfloat16.h"
#include "core/parallel_for.h"

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

  void SumTiles(int64_t row, int64_t tiles, const ConstTensorView& from,
                const TensorView& to) const override {
    DispatchFloat(to.dtype(), [&]<typename T>(T) {
      const T* elements = from.data<T>();
      T* sums = to.data<T>();
      ParallelFor(threads_, to.count(), std::max<int64_t>(1, kGrain / tiles),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                      const T* tile = elements + i / row * row * tiles + i % row;
                      double sum = 0;
                      for (int64_t t = 0; t < tiles; ++t) sum += tile[t * row];
                      sums[i] = static_cast<T>(sum);
                    }
                  });
    });
  }

 private:
  const int threads_;
};

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

}  // namespace crema
