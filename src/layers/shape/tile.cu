// Tile on the GPU; see tile.cc.
#include "layers/gpu_implementation.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

// y = the rows of x, `tiles` times each.
template <typename T>
void Repeat(const CudaQueue& queue, int64_t count, int64_t row, int64_t tiles, const T* x, T* y) {
  ForElements(queue, "Tile", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = x[i / (row * tiles) * row + i % row]; });
}

template <typename T>
void AddCopies(const CudaQueue& queue, int64_t count, int64_t row, int64_t tiles, const T* dy,
               T* dx) {
  ForElements(queue, "TileGradient", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const T* copy = dy + i / row * row * tiles + i % row;
    float sum = 0;
    for (int64_t t = 0; t < tiles; ++t) sum += ToFloat(copy[t * row]);
    dx[i] = FromFloat<T>(sum);
  });
}

// Elements of one copy.
int64_t Row(const Layer& layer, const Shape& x) {
  return x.count(LayerAxis(layer, x, layer.param().tile_param().axis(), "tile_param.axis"));
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const TensorView& y = args.outputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    Repeat(queue, y.count(), Row(layer, x.shape()), layer.param().tile_param().tiles(),
           Elements<T>(x), Elements<T>(y));
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const TensorView& dx = args.input_grads[0];
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    AddCopies(queue, dx.count(), Row(layer, dx.shape()), layer.param().tile_param().tiles(),
              Elements<T>(args.output_grads[0]), Elements<T>(dx));
  });
}

}  // namespace

void RegisterTileCuda(Registry& registry) {
  registry.AddImplementation("Tile", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu));
}

}  // namespace crema
