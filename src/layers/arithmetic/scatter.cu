// Scatter on the GPU; see scatter.cc. Picks are sorted by their element, so that one thread handles
// all updates of an element in their order. If an index is outside x, all of y is NaN.
#include <limits>

#include "layers/arithmetic/picks.cuh"
#include "layers/arithmetic/scatter.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/copy.cuh"

namespace crema {
namespace {

// The updates of the picks keys[0..], element `at` of each.
template <typename T>
struct GpuUpdates {
  CREMA_HOST_DEVICE float Update(int64_t k) const {
    return updates == nullptr ? 0 : ToFloat(updates[Place(k)]);
  }
  CREMA_HOST_DEVICE void Write(int64_t k, float gradient) const {
    if (grads != nullptr) grads[Place(k)] = FromFloat<T>(gradient);
  }
  CREMA_HOST_DEVICE int64_t Place(int64_t k) const { return keys[k].pick * inner + at; }

  const PickKey* keys;
  int64_t inner;
  int64_t at;
  const T* updates;  // null: not read
  T* grads;          // null: not needed
};

template <typename T>
void MeetUpdates(const CudaQueue& queue, const Picks& picks, const PickKey* keys,
                 ScatterParameter::Reduction reduction, const T* updates, T* y) {
  const int64_t count = picks.count, inner = picks.inner;
  ForElements(queue, "Scatter", count * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const PickRun run = RunAt(keys, count, i / inner);
    if (run.first == run.last) return;
    T& to = y[keys[run.first].offset + i % inner];
    float value = ToFloat(to);
    for (int64_t k = run.first; k < run.last; ++k) {
      value = Scattered(reduction, value, ToFloat(updates[keys[k].pick * inner + i % inner]));
    }
    to = FromFloat<T>(value);
  });
}

// The pick with the smallest key shows whether one is outside.
template <typename T>
void SpoilIfOutside(const CudaQueue& queue, int64_t count, const PickKey* keys, T* y) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ForElements(queue, "ScatterOutside", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    if (keys[0].offset < 0) y[i] = FromFloat<T>(nan);
  });
}

template <typename T>
void WriteGradients(const CudaQueue& queue, const Picks& picks, const PickKey* keys,
                    ScatterParameter::Reduction reduction, const T* x, const T* updates,
                    const T* dy, T* dx, T* grads) {
  const int64_t count = picks.count, inner = picks.inner;
  ForElements(queue, "ScatterGradient", count * inner, [=] CREMA_HOST_DEVICE(int64_t i) {
    const PickRun run = RunAt(keys, count, i / inner);
    if (run.first == run.last) return;
    const int64_t at = keys[run.first].offset + i % inner;
    const GpuUpdates<T> all{keys + run.first, inner, i % inner, updates, grads};
    const float gradient = ScatterGradient(reduction, run.last - run.first,
                                           x == nullptr ? 0 : ToFloat(x[at]), ToFloat(dy[at]), all);
    if (dx != nullptr) dx[at] = FromFloat<T>(gradient);
  });
}

struct GpuScatter {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    const Picks picks = ScatterPicks(layer, x, args.inputs[1].shape());
    CopyElements(args.queue, x.count(), args.x(), args.y());
    if (picks.count == 0) return;
    auto* const keys = ScratchCutter(args.scratch).Take<PickKey>(picks.count);
    SortPicks(args.queue, picks, args.x(1), keys);
    MeetUpdates(args.queue, picks, keys, layer.param().scatter_param().reduction(), args.x(2),
                args.y());
    SpoilIfOutside(args.queue, x.count(), keys, args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape& x = args.output_grads[0].shape();
    const Picks picks = ScatterPicks(layer, x, args.inputs[1].shape());
    if (args.dx() != nullptr) CopyElements(args.queue, x.count(), args.dy(), args.dx());
    if (picks.count == 0) return;
    auto* const keys = ScratchCutter(args.scratch).Take<PickKey>(picks.count);
    SortPicks(args.queue, picks, args.x(1), keys);
    // Updates for places outside of x get no gradient.
    if (args.dx(2) != nullptr) ZeroElements(args.queue, picks.count * picks.inner, args.dx(2));
    WriteGradients(args.queue, picks, keys, layer.param().scatter_param().reduction(), args.x(0),
                   args.x(2), args.dy(), args.dx(), args.dx(2));
  }

  static size_t Scratch(const OpDesc& query) {
    const std::span<const BlobSpec> inputs = query.context.inputs;
    return PickScratch(ScatterPicks(query.layer, inputs[0].shape, inputs[1].shape));
  }
};

}  // namespace

void RegisterScatterCuda(Registry& registry) {
  registry.AddImplementation("Scatter", CudaImplementation<GpuScatter>());
}

}  // namespace crema
