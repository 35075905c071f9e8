// Pad on the GPU; see pad.cc.
#include "core/strings.h"
#include "layers/gpu_implementation.h"
#include "layers/shape/pad.h"

namespace crema {
namespace {

constexpr int kMostAxes = 8;  // axes side by side that are not padded count as one

struct PadAxes {
  PadAxes(const Layer& layer, const Shape& x, const Shape& y)
      : mode(layer.param().pad_param().mode()) {
    const int first = PadAxis(layer, x);
    bool last_padded = true;
    for (int a = 0; a < x.axes(); ++a) {
      const bool padded = x[a] != y[a];
      if (padded || last_padded) {
        if (++size > kMostAxes) return;
        in[size - 1] = out[size - 1] = 1;
        before[size - 1] = padded ? PadBefore(layer, a - first) : 0;
      }
      in[size - 1] *= x[a];
      out[size - 1] *= y[a];
      last_padded = padded;
    }
  }

  // Of an element of axis a: how many places it stands at, and the number of one of them.
  CREMA_HOST_DEVICE int64_t Copies(int a, int64_t i) const {
    const int64_t last = in[a] - 1;
    if (mode == PadParameter::REPLICATE) {
      return 1 + (i == 0 ? before[a] : 0) + (i == last ? out[a] - in[a] - before[a] : 0);
    }
    if (mode == PadParameter::CONSTANT) return 1;
    return 1 + (MirroredInFront(a, i) ? 1 : 0) + (2 * last - i + before[a] < out[a] && i < last);
  }
  CREMA_HOST_DEVICE int64_t Copy(int a, int64_t i, int64_t copy) const {
    if (mode == PadParameter::REPLICATE && i == 0) return copy;
    if (mode == PadParameter::REFLECT) {
      if (MirroredInFront(a, i) && copy-- == 0) return before[a] - i;
      if (copy > 0) return before[a] + 2 * (in[a] - 1) - i;
    }
    return before[a] + i + copy;
  }

  PadParameter::PadMode mode;
  int size = 0;
  int64_t in[kMostAxes]{}, out[kMostAxes]{}, before[kMostAxes]{};

 private:
  CREMA_HOST_DEVICE bool MirroredInFront(int a, int64_t i) const { return i > 0 && i <= before[a]; }
};

template <typename T>
void PadElements(const CudaQueue& queue, int64_t count, const PadAxes& axes, float constant,
                 const T* x, T* y) {
  ForElements(queue, "Pad", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    int64_t rest = i, source = 0, step = 1;
    bool constant_here = false;
    for (int a = axes.size - 1; a >= 0; --a) {
      const int64_t place = rest % axes.out[a] - axes.before[a];
      rest /= axes.out[a];
      const int64_t element = PadSource(axes.mode, axes.in[a], place);
      constant_here |= element < 0;
      source += element * step;
      step *= axes.in[a];
    }
    y[i] = constant_here ? FromFloat<T>(constant) : x[source];
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

Support Supports(const OpDesc& query) {
  const PadAxes axes(query.layer, query.context.inputs[0].shape, query.info.outputs[0].shape);
  if (axes.size > kMostAxes) {
    return Support::No(StrCat("is for ", kMostAxes, " axes; unpadded ones side by side are one"));
  }
  return SupportsCudaFloats(query);
}

}  // namespace

void RegisterPadCuda(Registry& registry) {
  registry.AddImplementation(
      "Pad", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.supports = Supports}));
}

}  // namespace crema
