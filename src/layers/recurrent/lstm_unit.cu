// LSTMUnit on the GPU; see lstm_unit.cc.
#include <cmath>

#include "layers/gpu_implementation.h"
#include "layers/recurrent/recurrent_gates.h"
#include "layers/recurrent/sequence_pass.cuh"

namespace crema {
namespace {

struct GpuLstmUnit {
  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>& args) {
    const Shape& shape = args.inputs[0].shape();
    const int64_t size = shape[2];
    const T *before = args.x(0), *x = args.x(1), *cont = args.x(2);
    T* saved = args.template Saved<T>();  // null if no backward pass follows
    T *c = args.y(0), *h = args.y(1);
    ForElements(args.queue, "LstmUnitForward", shape.count(), [=] CREMA_HOST_DEVICE(int64_t at) {
      const int64_t first = at / size * 4 * size + at % size;
      const float i = GateSigmoid(ToFloat(x[first])), f = GateSigmoid(ToFloat(x[first + size]));
      const float o = GateSigmoid(ToFloat(x[first + 2 * size]));
      const float g = std::tanh(ToFloat(x[first + 3 * size]));
      if (saved != nullptr) {
        saved[first] = FromFloat<T>(i);
        saved[first + size] = FromFloat<T>(f);
        saved[first + 2 * size] = FromFloat<T>(o);
        saved[first + 3 * size] = FromFloat<T>(g);
      }
      const float cell = f * Masked(ToFloat(cont[at / size]), ToFloat(before[at])) + i * g;
      c[at] = FromFloat<T>(cell);
      h[at] = FromFloat<T>(o * std::tanh(cell));
    });
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const Shape& shape = args.inputs[0].shape();
    const int64_t size = shape[2];
    const T *before = args.x(0), *cont = args.x(2), *gates = args.template Saved<T>(),
            *c = args.y();
    const T *dc = args.dy(0), *dh = args.dy(1);
    T *dbefore = args.dx(0), *dx = args.dx(1);  // null if not needed
    ForElements(args.queue, "LstmUnitBackward", shape.count(), [=] CREMA_HOST_DEVICE(int64_t at) {
      const int64_t first = at / size * 4 * size + at % size;
      const float factor = ToFloat(cont[at / size]);
      const LstmSlopes<float> slopes = LstmBackward(
          ToFloat(gates[first]), ToFloat(gates[first + size]), ToFloat(gates[first + 2 * size]),
          ToFloat(gates[first + 3 * size]), Masked(factor, ToFloat(before[at])),
          std::tanh(ToFloat(c[at])), ToFloat(dc[at]), ToFloat(dh[at]));
      if (dbefore != nullptr) dbefore[at] = FromFloat<T>(Masked(factor, slopes.before));
      if (dx == nullptr) return;
      dx[first] = FromFloat<T>(slopes.i);
      dx[first + size] = FromFloat<T>(slopes.f);
      dx[first + 2 * size] = FromFloat<T>(slopes.o);
      dx[first + 3 * size] = FromFloat<T>(slopes.g);
    });
  }
};

}  // namespace

void RegisterLSTMUnitCuda(Registry& registry) {
  registry.AddImplementation("LSTMUnit", CudaImplementation<GpuLstmUnit>());
}

}  // namespace crema
