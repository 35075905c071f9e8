// Gather and BatchReindex on the GPU; see gather.cc.
#include <limits>

#include "crema.pb.h"
#include "layers/arithmetic/gather.h"
#include "layers/arithmetic/indices.cuh"
#include "layers/arithmetic/picks.cuh"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// ELEMENTS and ND.
template <typename T>
void CopyPicks(const CudaQueue& queue, const Picks& picks, const T* index, const T* x, T* y) {
  const Picks from = picks;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ForElements(queue, "GatherPicks", from.count * from.inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t offset = from.Offset(index, i / from.inner);
    y[i] = offset < 0 ? FromFloat<T>(nan) : x[offset + i % from.inner];
  });
}

// One thread adds the gradients of an element of x, in the order of the picks.
template <typename T>
void AddPicks(const CudaQueue& queue, const Picks& picks, const PickKey* keys, const T* dy, T* dx) {
  const int64_t count = picks.count, inner = picks.inner;
  ForElements(queue, "AddPicks", count * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const PickRun run = RunAt(keys, count, i / inner);
    if (run.first == run.last) return;
    float sum = 0;
    for (int64_t k = run.first; k < run.last; ++k) {
      sum += ToFloat(dy[keys[k].pick * inner + i % inner]);
    }
    dx[keys[run.first].offset + i % inner] = FromFloat<T>(sum);
  });
}

bool PicksElements(const Layer& layer) {
  return layer.param().gather_param().mode() != GatherParameter::AXIS;
}

struct GpuGather {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape &x = args.inputs[0].shape(), &index = args.inputs[1].shape();
    if (PicksElements(layer)) {
      return CopyPicks(args.queue, GatherPicks(layer, x, index), args.x(1), args.x(), args.y());
    }
    const GatherSize e = static_cast<const GatherLayer&>(layer).SizesOf(x, index.count());
    GatherRows<T>(args.queue, e, args.x(1), args.x(), nullptr, args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape &x = args.input_grads[0].shape(), &index = args.inputs[1].shape();
    ZeroElements(args.queue, x.count(), args.dx());
    if (PicksElements(layer)) {
      const Picks picks = GatherPicks(layer, x, index);
      auto* const keys = ScratchCutter(args.scratch).Take<PickKey>(picks.count);
      SortPicks(args.queue, picks, args.x(1), keys);
      return AddPicks(args.queue, picks, keys, args.dy(), args.dx());
    }
    const GatherSize e = static_cast<const GatherLayer&>(layer).SizesOf(x, index.count());
    ScatterAddRows(args.queue, e, args.x(1), args.dy(), args.scratch, args.dx());
  }
  static size_t BackwardScratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    if (!PicksElements(query.layer)) return ScatterScratch(inputs[1].shape.count());
    return PickScratch(GatherPicks(query.layer, inputs[0].shape, inputs[1].shape));
  }
};

}  // namespace

void RegisterGatherCuda(Registry& registry) {
  for (const char* type : {"Gather", "BatchReindex"}) {
    registry.AddImplementation(type, CudaImplementation<GpuGather>());
  }
}

}  // namespace crema
