// Filter on the GPU; see filter.cc. The host waits for the number of selected items.
#include <vector>

#include "layers/gpu_implementation.h"
#include "layers/native_check.h"
#include "layers/shape/filter_shape.h"
#include "math/cuda/team_lists.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// Counts that the host reads from the device.
struct Kept {
  int64_t items;
  int64_t not_numbers;
};

// Writes chosen[place] = item, for each place in the output, and the counts.
template <typename T>
void Choose(const CudaQueue& queue, int64_t items, const T* selector, int64_t* chosen, Kept* kept) {
  ForTeams(queue, "FilterItems", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    const int64_t count = Compact(
        team, items, [&](int64_t n) { return ToFloat(selector[n]) != 0; },
        [&](int64_t n, int64_t place) { chosen[place] = n; });
    const int64_t bad = team.Sum(items, [&](int64_t n) -> int64_t {
      const float value = ToFloat(selector[n]);
      return value != value;
    });
    team.For(1, [&](int64_t) { *kept = Kept{count, bad}; });
  });
}

template <typename T>
void Gather(const CudaQueue& queue, int64_t items, int64_t size, const int64_t* chosen,
            const Kept* kept, const T* x, T* y) {
  ForElements(queue, "Filter", items * size, [=] CREMA_HOST_DEVICE(int64_t i) {
    if (i / size < kept->items) y[i] = x[chosen[i / size] * size + i % size];
  });
}

// Writes places[item] = place in the output, or -1.
template <typename T>
void FindPlaces(const CudaQueue& queue, int64_t items, const T* selector, int64_t* places) {
  ForTeams(queue, "FilterPlaces", 1, [=] CREMA_HOST_DEVICE(const Team& team, int64_t) {
    team.For(items, [&](int64_t n) { places[n] = -1; });
    Compact(
        team, items, [&](int64_t n) { return ToFloat(selector[n]) != 0; },
        [&](int64_t n, int64_t place) { places[n] = place; });
  });
}

template <typename T>
void Spread(const CudaQueue& queue, int64_t items, int64_t size, const int64_t* places, const T* dy,
            T* dx) {
  ForElements(queue, "FilterBackward", items * size, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t place = places[i / size];
    dx[i] = place < 0 ? FromFloat<T>(0) : dy[place * size + i % size];
  });
}

// The last input is the selector.
struct GpuFilter {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const int64_t items = args.inputs.back().count();
    ScratchCutter cutter(args.scratch);
    Kept* const kept = cutter.Take<Kept>(1);
    int64_t* const chosen = cutter.Take<int64_t>(items);
    Choose(args.queue, items, args.x(args.inputs.size() - 1), chosen, kept);
    for (size_t i = 0; i < args.outputs.size(); ++i) {
      Gather(args.queue, items, args.inputs[i].shape().count(1), chosen, kept, args.x(i),
             args.y(i));
    }
    Kept told{};
    args.queue.Download(&told, kept, sizeof(told));
    if (told.not_numbers > 0) FailNatively(layer, args);
    for (size_t i = 0; i < args.outputs.size(); ++i) {
      args.output_shapes[i] = WithItems(args.inputs[i].shape(), told.items);
    }
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const int64_t items = args.inputs.back().count();
    int64_t* const places = ScratchCutter(args.scratch).Take<int64_t>(items);
    FindPlaces(args.queue, items, args.x(args.inputs.size() - 1), places);
    for (size_t i = 0; i < args.output_grads.size(); ++i) {
      if (args.dx(i) == nullptr) continue;
      Spread(args.queue, items, args.input_grads[i].shape().count(1), places, args.dy(i),
             args.dx(i));
    }
  }

  static size_t ForwardScratch(const OpDesc& query) {
    return BackwardScratch(query) + ScratchBytes<Kept>(1);
  }
  static size_t BackwardScratch(const OpDesc& query) {
    return kScratchSlack + ScratchBytes<int64_t>(query.context.inputs.back().shape.count());
  }
};

}  // namespace

void RegisterFilterCuda(Registry& registry) {
  registry.AddImplementation("Filter", CudaImplementation<GpuFilter>());
}

}  // namespace crema
