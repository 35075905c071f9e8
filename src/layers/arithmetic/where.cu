// Where on the GPU; see where.cc.
#include "layers/arithmetic/broadcasting.cuh"

namespace crema {
namespace {

template <typename T>
void Select(const CudaQueue& queue, const BroadcastMap& map, const T* condition, const T* a,
            const T* b, T* y) {
  ForElements(queue, "Where", map.count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const bool first = ToFloat(condition[map.PositionOf(0, i)]) != 0;
    y[i] = first ? a[map.PositionOf(1, i)] : b[map.PositionOf(2, i)];
  });
}

template <typename T>
void WriteOperandGradient(const GpuBackward<T>& args, const BroadcastMap& map, size_t input) {
  const T *condition = args.x(), *dy = args.dy();
  const bool of_a = input == 1;
  WriteGradientOnGpu(args, map, input, [=] CREMA_HOST_DEVICE(int64_t i) {
    const bool first = ToFloat(condition[map.PositionOf(0, i)]) != 0;
    return first == of_a ? ToFloat(dy[i]) : 0.0F;
  });
}

struct GpuWhere {
  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>& args) {
    const BroadcastMap map = MapOfInputs(args.outputs[0].shape(), args.inputs);
    Select(args.queue, map, args.x(0), args.x(1), args.x(2), args.y());
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const BroadcastMap map = MapOfInputs(args.output_grads[0].shape(), args.inputs);
    for (const size_t input : {size_t{1}, size_t{2}}) {
      if (args.dx(input) != nullptr) WriteOperandGradient(args, map, input);
    }
  }

  static size_t BackwardScratch(const OpDesc& query) { return GradientSumScratchOnGpu(query); }
};

}  // namespace

void RegisterWhereCuda(Registry& registry) {
  registry.AddImplementation("Where", CudaImplementation<GpuWhere>());
}

}  // namespace crema
