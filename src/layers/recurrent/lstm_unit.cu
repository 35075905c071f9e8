// LSTMUnit on the GPU; see lstm_unit.cc.
#include <cmath>

#include "layers/gpu_implementation.h"
#include "layers/recurrent/recurrent_gates.h"
#include "layers/recurrent/sequence_pass.cuh"

namespace crema {
namespace {

// `kept` is null if no backward pass follows.
template <typename T>
void Forward(const CudaQueue& queue, int64_t count, int64_t size, const T* before, const T* x,
             const T* cont, T* kept, T* c, T* h) {
  ForElements(queue, "LstmUnitForward", count, [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t first = at / size * 4 * size + at % size;
    const float i = GateSigmoid(ToFloat(x[first])), f = GateSigmoid(ToFloat(x[first + size]));
    const float o = GateSigmoid(ToFloat(x[first + 2 * size]));
    const float g = std::tanh(ToFloat(x[first + 3 * size]));
    if (kept != nullptr) {
      kept[first] = FromFloat<T>(i);
      kept[first + size] = FromFloat<T>(f);
      kept[first + 2 * size] = FromFloat<T>(o);
      kept[first + 3 * size] = FromFloat<T>(g);
    }
    const float cell = f * Masked(ToFloat(cont[at / size]), ToFloat(before[at])) + i * g;
    c[at] = FromFloat<T>(cell);
    h[at] = FromFloat<T>(o * std::tanh(cell));
  });
}

template <typename T>
struct UnitGradients {
  const T* dc;
  const T* dh;
  T* dbefore;  // null if not wanted
  T* dx;       // null if not wanted
};

template <typename T>
void Backward(const CudaQueue& queue, int64_t count, int64_t size, const T* before, const T* cont,
              const T* gates, const T* c, const UnitGradients<T>& out) {
  ForElements(queue, "LstmUnitBackward", count, [=] CREMA_HOST_DEVICE(int64_t at) {
    const int64_t first = at / size * 4 * size + at % size;
    const float factor = ToFloat(cont[at / size]);
    const LstmSlopes<float> slopes = LstmBackward(
        ToFloat(gates[first]), ToFloat(gates[first + size]), ToFloat(gates[first + 2 * size]),
        ToFloat(gates[first + 3 * size]), Masked(factor, ToFloat(before[at])),
        std::tanh(ToFloat(c[at])), ToFloat(out.dc[at]), ToFloat(out.dh[at]));
    if (out.dbefore != nullptr) out.dbefore[at] = FromFloat<T>(Masked(factor, slopes.before));
    if (out.dx == nullptr) return;
    out.dx[first] = FromFloat<T>(slopes.i);
    out.dx[first + size] = FromFloat<T>(slopes.f);
    out.dx[first + 2 * size] = FromFloat<T>(slopes.o);
    out.dx[first + 3 * size] = FromFloat<T>(slopes.g);
  });
}

void ForwardOnGpu(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    Forward(queue, shape.count(), shape[2], Elements<T>(args.inputs[0]),
            Elements<T>(args.inputs[1]), Elements<T>(args.inputs[2]), Elements<T>(args.saved[0]),
            Elements<T>(args.outputs[0]), Elements<T>(args.outputs[1]));
  });
}

void BackwardOnGpu(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const UnitGradients<T> out{Elements<T>(args.output_grads[0]), Elements<T>(args.output_grads[1]),
                               Elements<T>(args.input_grads[0]), Elements<T>(args.input_grads[1])};
    Backward(queue, shape.count(), shape[2], Elements<T>(args.inputs[0]),
             Elements<T>(args.inputs[2]), Elements<T>(args.saved[0]), Elements<T>(args.outputs[0]),
             out);
  });
}

}  // namespace

void RegisterLSTMUnitCuda(Registry& registry) {
  registry.AddImplementation("LSTMUnit", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
