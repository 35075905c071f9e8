// Upsample on the GPU; see upsample.cc.
#include "layers/gpu_implementation.h"
#include "layers/sampling/mask_unpool.cuh"

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

// Returns the first output along an axis that copies input `i` or a later one.
CREMA_HOST_DEVICE int64_t FirstOutput(int64_t i, int64_t in, int64_t out) {
  return (i * out + in - 1) / in;
}

struct GpuUpsample {
  static bool IsMasked(const OpDesc& query) { return query.context.inputs.size() > 1; }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    if (args.inputs.size() > 1) return GpuMaskUnpool::Forward(layer, args);
    const Planes p(args.inputs[0].shape(), args.outputs[0].shape());
    const T* x = args.x();
    T* y = args.y();
    ForElements(args.queue, "Upsample", p.count * p.out_h * p.out_w,
                [=] CREMA_HOST_DEVICE(int64_t i) {
                  const int64_t line = i / p.out_w;
                  const int64_t row = line % p.out_h * p.in_h / p.out_h;
                  const int64_t column = i % p.out_w * p.in_w / p.out_w;
                  y[i] = x[(line / p.out_h * p.in_h + row) * p.in_w + column];
                });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    if (args.inputs.size() > 1) return GpuMaskUnpool::Backward(layer, args);
    const Planes p(args.input_grads[0].shape(), args.output_grads[0].shape());
    const T* dy = args.dy();
    T* dx = args.dx();
    ForElements(args.queue, "UpsampleBackward", p.count * p.in_h * p.in_w,
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

  static Support Supports(const OpDesc& query) {
    return IsMasked(query) ? GpuMaskUnpool::Supports(query) : SupportsCudaFloats(query);
  }
  static size_t Scratch(const OpDesc& query) {
    return IsMasked(query) ? GpuMaskUnpool::Scratch(query) : 0;
  }
};

}  // namespace

void RegisterUpsampleCuda(Registry& registry) {
  registry.AddImplementation("Upsample", CudaImplementation<GpuUpsample>());
}

}  // namespace crema
