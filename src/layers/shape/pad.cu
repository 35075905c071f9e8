// Pad on the GPU; see pad.cc.
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/shape/pad.h"

namespace crema {
namespace {

template <typename T>
void PadElements(const CudaQueue& queue, int64_t count, const PadAxes& axes, float constant,
                 const T* x, T* y) {
  ForElements(queue, "Pad", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t row = axes.RowSource(i / axes.OutRow());
    const int64_t element = axes.Source(axes.size - 1, i % axes.OutRow());
    y[i] = row < 0 || element < 0 ? FromFloat<T>(constant) : x[row + element];
  });
}

template <typename T>
void AddCopies(const CudaQueue& queue, int64_t count, const PadAxes& axes, const T* dy, T* dx) {
  ForElements(queue, "PadGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    int64_t copies = 1;
    int64_t element = i;
    for (int a = axes.size - 1; a >= 0; --a) {
      copies *= axes.Copies(a, element % axes.in[a]);
      element /= axes.in[a];
    }
    float sum = 0;
    for (int64_t copy = 0; copy < copies; ++copy) {
      int64_t rest = copy, place = 0, step = 1;
      element = i;
      for (int a = axes.size - 1; a >= 0; --a) {
        const int64_t own = element % axes.in[a], each = axes.Copies(a, own);
        place += axes.Copy(a, own, rest % each) * step;
        step *= axes.out[a];
        rest /= each;
        element /= axes.in[a];
      }
      sum += ToFloat(dy[place]);
    }
    dx[i] = FromFloat<T>(sum);
  });
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  const PadAxes axes(layer, x.shape(), y.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    PadElements(queue, y.count(), axes, layer.param().pad_param().value(), Elements<T>(x),
                Elements<T>(y));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& dx = args.input_grads[0];
  const ConstTensorView& dy = args.output_grads[0];
  const PadAxes axes(layer, dx.shape(), dy.shape());
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    AddCopies(queue, dx.count(), axes, Elements<T>(dy), Elements<T>(dx));
  });
}

}  // namespace

void RegisterPadCuda(Registry& registry) {
  registry.AddImplementation("Pad", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
