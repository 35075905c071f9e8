// Binary on the GPU; see binary.cc.
#include "layers/arithmetic/binary_operations.h"
#include "layers/arithmetic/broadcasting.cuh"
#include "layers/channels_last_implementation.h"

namespace crema {
namespace {

// Both operands; null elements are the value, or are not read.
template <typename T>
struct Operands {
  Operands(const Layer& layer, const BroadcastMap& positions, const T* x, const T* second, bool two)
      : map(positions),
        operation(layer.param().binary_param().operation()),
        value(layer.param().binary_param().value()) {
    const bool value_first = !two && layer.param().binary_param().value_first();
    a = value_first ? nullptr : x;
    b = value_first ? x : second;
    b_input = value_first ? 0 : 1;
  }
  CREMA_HOST_DEVICE float A(int64_t i) const {
    return a == nullptr ? value : ToFloat(a[map.PositionOf(0, i)]);
  }
  CREMA_HOST_DEVICE float B(int64_t i) const {
    return b == nullptr ? value : ToFloat(b[map.PositionOf(b_input, i)]);
  }

  BroadcastMap map;
  BinaryOperation operation;
  float value;
  const T* a;
  const T* b;
  int b_input;
};

template <typename T>
void ComputeAll(const CudaQueue& queue, const Operands<T>& operands, T* y) {
  ForElements(queue, "Binary", operands.map.count, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = FromFloat<T>(BinaryValue(operands.operation, operands.A(i), operands.B(i)));
  });
}

template <typename T>
void WriteOperandGradient(const GpuBackward<T>& args, const Operands<T>& operands, int operand,
                          size_t input) {
  const T* dy = args.dy();
  WriteGradientOnGpu(args, operands.map, input, [=] CREMA_HOST_DEVICE(int64_t i) {
    return BinaryGradient(operands.operation, operand, operands.A(i), operands.B(i),
                          ToFloat(dy[i]));
  });
}

struct GpuBinary {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const BroadcastMap map = MapOfInputs(args.outputs[0].shape(), args.inputs);
    ComputeAll(args.queue, Operands<T>(layer, map, args.x(0), args.x(1), args.inputs.size() == 2),
               args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const BroadcastMap map = MapOfInputs(args.output_grads[0].shape(), args.inputs);
    const bool two = args.inputs.size() == 2;
    const Operands<T> operands(layer, map, args.x(0), args.x(1), two);
    // Input 0 last, since its gradient may share memory with dy.
    if (two && args.dx(1) != nullptr) WriteOperandGradient(args, operands, 1, 1);
    const int first = !two && layer.param().binary_param().value_first() ? 1 : 0;
    if (args.dx(0) != nullptr) WriteOperandGradient(args, operands, first, 0);
  }

  static size_t BackwardScratch(const OpDesc& query) { return GradientSumScratchOnGpu(query); }
};

Support RepeatsNothing(const OpDesc& query) {
  return query.info.any_format ? Support{} : Support::No("is for operands of one shape");
}

}  // namespace

void RegisterBinaryCuda(Registry& registry) {
  registry.AddImplementation("Binary",
                             InChannelsLast(CudaImplementation<GpuBinary>(), RepeatsNothing));
  registry.AddImplementation("Binary", CudaImplementation<GpuBinary>());
}

}  // namespace crema
