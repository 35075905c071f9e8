// Upsample on the GPU; see upsample.cc.
#include "layers/gpu_implementation.h"
#include "layers/sampling/mask_unpool_cuda.h"

namespace crema {
namespace {

struct Planes {
  Planes(const Shape& input, const Shape& output)
      : count(input.count(0, 2)),
        in_h(input[2]),
        in_w(input[3]),
        out_h(output[2]),
        out_w(output[3]) {}
  int64_t count, in_h, in_w, out_h, out_w;
};

template <typename T>
void Enlarge(const CudaQueue& queue, const Planes& planes, const T* x, T* y) {
  const Planes p = planes;
  ForElements(queue, "Upsample", p.count * p.out_h * p.out_w, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t line = i / p.out_w;
    const int64_t row = line % p.out_h * p.in_h / p.out_h;
    const int64_t column = i % p.out_w * p.in_w / p.out_w;
    y[i] = x[(line / p.out_h * p.in_h + row) * p.in_w + column];
  });
}

// Returns the first output along an axis that copies input `i` or a later one.
CREMA_HOST_DEVICE int64_t FirstOutput(int64_t i, int64_t in, int64_t out) {
  return (i * out + in - 1) / in;
}

template <typename T>
void Sum(const CudaQueue& queue, const Planes& planes, const T* dy, T* dx) {
  const Planes p = planes;
  ForElements(queue, "UpsampleBackward", p.count * p.in_h * p.in_w,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t row = i / p.in_w % p.in_h, column = i % p.in_w;
                const T* plane = dy + i / (p.in_h * p.in_w) * p.out_h * p.out_w;
                const int64_t right = FirstOutput(column + 1, p.in_w, p.out_w);
                const int64_t bottom = FirstOutput(row + 1, p.in_h, p.out_h);
                float sum = 0;
                for (int64_t h = FirstOutput(row, p.in_h, p.out_h); h < bottom; ++h) {
                  for (int64_t w = FirstOutput(column, p.in_w, p.out_w); w < right; ++w) {
                    sum += ToFloat(plane[h * p.out_w + w]);
                  }
                }
                dx[i] = FromFloat<T>(sum);
              });
}

bool IsMasked(const OpDesc& query) { return query.context.inputs.size() > 1; }

Support Supports(const OpDesc& query) {
  return IsMasked(query) ? SupportsCudaMaskUnpool(query) : SupportsCudaFloats(query);
}

size_t Scratch(const OpDesc& query) { return IsMasked(query) ? CudaMaskUnpoolScratch(query) : 0; }

void Forward(const Layer&, const ForwardArgs& args) {
  if (args.inputs.size() > 1) return ForwardCudaMaskUnpool(args);
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Enlarge(BoundQueue(args.context), Planes(x.shape(), y.shape()), Elements<T>(x), Elements<T>(y));
  });
}

void Backward(const Layer&, const BackwardArgs& args) {
  if (args.inputs.size() > 1) return BackwardCudaMaskUnpool(args);
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    Sum(BoundQueue(args.context), Planes(dx.shape(), dy.shape()), Elements<T>(dy), Elements<T>(dx));
  });
}

}  // namespace

void RegisterUpsampleCuda(Registry& registry) {
  registry.AddImplementation("Upsample", MakeCudaImplementation(Forward, Backward,
                                                                {.supports = Supports,
                                                                 .forward_scratch = Scratch,
                                                                 .backward_scratch = Scratch}));
}

}  // namespace crema
