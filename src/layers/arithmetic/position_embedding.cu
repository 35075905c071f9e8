// PositionEmbedding on the GPU; see position_embedding.cc.
#include "crema.pb.h"
#include "layers/arithmetic/position_embedding.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"
#include "math/cuda/sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

void FillSinusoids(const CudaQueue& queue, const PositionSize& e, float* table) {
  const int64_t features = e.features;
  ForElements(queue, "FillSinusoids", e.positions * features, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t f = i % features;
    table[i] = static_cast<float>(Sinusoid(i / features, f, SinusoidFrequency(f, features)));
  });
}

// `table` is learned, of type T, or holds sinusoids in f32.
template <typename T, typename Table>
void AddTable(const CudaQueue& queue, const PositionSize& e, int64_t count, const T* x,
              const Table* table, T* y) {
  const int64_t features = e.features, middle = e.middle, positions = e.positions;
  ForElements(queue, "AddPositions", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t p = i / (features * middle) % positions;
    y[i] = FromFloat<T>(ToFloat(x[i]) + ToFloat(table[p * features + i % features]));
  });
}

template <typename T>
void AddGradient(const CudaQueue& queue, const PositionSize& e, const T* dy, T* sums) {
  const int64_t features = e.features, middle = e.middle, positions = e.positions;
  AddColumnSums(
      queue, e.outer * middle, positions * features,
      [=] CREMA_HOST_DEVICE(int64_t r, int64_t c) {
        const int64_t row = (r / middle * positions + c / features) * middle + r % middle;
        return ToFloat(dy[row * features + c % features]);
      },
      sums);
}

bool Learns(const Layer& layer) {
  return layer.param().position_embedding_param().kind() == PositionEmbeddingParameter::LEARNED;
}

// Holds the table of sinusoids.
size_t ForwardScratch(const OpDesc& query) {
  if (Learns(query.layer)) return 0;
  const PositionSize e = PositionSizeOf(query.layer, query.context.inputs[0].shape);
  return ScratchBytes<float>(e.positions * e.features) + kScratchSlack;
}

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  if (x.count() == 0) return;
  const PositionSize e = PositionSizeOf(layer, x.shape());
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    T* y = Elements<T>(args.outputs[0]);
    if (Learns(layer)) {
      AddTable(queue, e, x.count(), Elements<T>(x), Elements<T>(args.learned[0]), y);
      return;
    }
    float* sinusoids = ScratchCutter(args.scratch).Take<float>(e.positions * e.features);
    FillSinusoids(queue, e, sinusoids);
    AddTable(queue, e, x.count(), Elements<T>(x), sinusoids, y);
  });
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& dy = args.output_grads[0];
  const PositionSize e = PositionSizeOf(layer, dy.shape());
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    if (Learns(layer) && !args.learned_grads[0].empty()) {
      AddGradient(queue, e, Elements<T>(dy), Elements<T>(args.learned_grads[0]));
    }
    // Last, since dx may share memory with dy.
    const TensorView& dx = args.input_grads[0];
    if (!dx.empty()) CopyElements(queue, dy.count(), Elements<T>(dy), Elements<T>(dx));
  });
}

}  // namespace

void RegisterPositionEmbeddingCuda(Registry& registry) {
  registry.AddImplementation(
      "PositionEmbedding",
      MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu, {.forward_scratch = ForwardScratch}));
}

}  // namespace crema
