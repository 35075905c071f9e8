// PositionEmbedding on the GPU; see position_embedding.cc.
#include "crema.pb.h"
#include "layers/arithmetic/position_embedding.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"
#include "math/cuda/sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

bool Learns(const Layer& layer) {
  return layer.param().position_embedding_param().kind() == PositionEmbeddingParameter::LEARNED;
}

void FillSinusoids(const CudaQueue& queue, const PositionSize& e, float* table) {
  const int64_t features = e.features;
  ForElements(queue, "FillSinusoids", e.positions * features, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t f = i % features;
    table[i] = static_cast<float>(Sinusoid(i / features, f, SinusoidFrequency(f, features)));
  });
}

// `table` is learned, of type T, or holds sinusoids in f32.
template <typename T, typename Table>
void AddTable(const GpuForward<T>& args, const PositionSize& e, const Table* table) {
  const int64_t features = e.features, middle = e.middle, positions = e.positions;
  const T* x = args.x();
  T* y = args.y();
  ForElements(args.queue, "AddPositions", args.inputs[0].count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t p = i / (features * middle) % positions;
    y[i] = FromFloat<T>(ToFloat(x[i]) + ToFloat(table[p * features + i % features]));
  });
}

struct GpuPositionEmbedding {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    if (args.inputs[0].count() == 0) return;
    const PositionSize e = PositionSizeOf(layer, args.inputs[0].shape());
    if (Learns(layer)) return AddTable(args, e, args.w());
    float* sinusoids = ScratchCutter(args.scratch).Take<float>(e.positions * e.features);
    FillSinusoids(args.queue, e, sinusoids);
    AddTable(args, e, sinusoids);
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const T* dy = args.dy();
    if (Learns(layer) && args.dw() != nullptr) {
      const PositionSize e = PositionSizeOf(layer, args.output_grads[0].shape());
      const int64_t features = e.features, middle = e.middle, positions = e.positions;
      AddColumnSums(
          args.queue, e.outer * middle, positions * features,
          [=] CREMA_HOST_DEVICE(int64_t r, int64_t c) {
            const int64_t row = (r / middle * positions + c / features) * middle + r % middle;
            return ToFloat(dy[row * features + c % features]);
          },
          args.dw());
    }
    // Last, since dx may share memory with dy.
    if (args.dx() != nullptr) {
      CopyElements(args.queue, args.output_grads[0].count(), dy, args.dx());
    }
  }

  // Holds the table of sinusoids.
  static size_t ForwardScratch(const OpDesc& query) {
    if (Learns(query.layer)) return 0;
    const PositionSize e = PositionSizeOf(query.layer, query.context.inputs[0].shape);
    return ScratchBytes<float>(e.positions * e.features) + kScratchSlack;
  }
};

}  // namespace

void RegisterPositionEmbeddingCuda(Registry& registry) {
  registry.AddImplementation("PositionEmbedding", CudaImplementation<GpuPositionEmbedding>());
}

}  // namespace crema
