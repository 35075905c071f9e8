// See mask_unpool_cuda.h.
#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/sampling/mask_unpool.h"
#include "layers/sampling/mask_unpool_cuda.h"
#include "layers/whole_numbers.h"
#include "layers/zero_gradient.cuh"

namespace crema {
namespace {

constexpr int64_t kMostBytes = int64_t{256} << 20;  // limit of scratch, unless one plane needs more

struct Sizes {
  Sizes(const Shape& input, const Shape& output)
      : planes(input.count(0, 2)), cells(input.count(2)), places(output.count(2)) {
    const int64_t bytes = std::max<int64_t>(1, places * static_cast<int64_t>(sizeof(int32_t)));
    at_once = std::min(planes, std::max<int64_t>(1, kMostBytes / bytes));
  }
  int64_t planes, cells, places;
  int64_t at_once;  // planes processed together
};

// owner[place] = the last cell whose mask names the position, or -1, for each of `planes` planes,
// with one team per plane. Cells write in any order, repeatedly, until every position has its last
// cell. The result is therefore deterministic.
template <typename T>
void FindOwners(const CudaQueue& queue, const Sizes& sizes, int64_t planes, const T* masks,
                int32_t* owners) {
  const int64_t cells = sizes.cells, places = sizes.places;
  ForTeams(queue, "FindOwners", planes, [=] CREMA_HOST_DEVICE(const Team& team, int64_t p) {
    const T* mask = masks + p * cells;
    int32_t* owner = owners + p * places;
    const auto is_later = [&](int64_t i, int64_t place) { return place >= 0 && owner[place] < i; };
    team.For(places, [&](int64_t place) { owner[place] = -1; });
    bool done = false;
    while (!done) {
      team.For(cells, [&](int64_t i) {
        const int64_t place = MaskPlace(ToFloat(mask[i]), places);
        if (is_later(i, place)) owner[place] = static_cast<int32_t>(i);
      });
      done = team.Max(cells, 0, [&](int64_t i) {
        return is_later(i, MaskPlace(ToFloat(mask[i]), places)) ? 1 : 0;
      }) == 0;
    }
  });
}

template <typename T>
void PutValues(const CudaQueue& queue, const Sizes& sizes, int64_t planes, const int32_t* owners,
               const T* x, T* y) {
  const int64_t cells = sizes.cells, places = sizes.places;
  ForElements(queue, "MaskUnpool", planes * places, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = owners[i] < 0 ? FromFloat<T>(0) : x[i / places * cells + owners[i]];
  });
}

template <typename T>
void TakeGradients(const CudaQueue& queue, const Sizes& sizes, int64_t planes,
                   const int32_t* owners, const T* mask, const T* dy, T* dx) {
  const int64_t cells = sizes.cells, places = sizes.places;
  ForElements(queue, "MaskUnpoolBackward", planes * cells, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t place = MaskPlace(ToFloat(mask[i]), places);
    const int64_t from = i / cells * places + place;
    const bool counts = place >= 0 && owners[from] == i % cells;
    dx[i] = counts ? dy[from] : FromFloat<T>(0);
  });
}

}  // namespace

Support SupportsCudaMaskUnpool(const OpDesc& query) {
  if (query.info.outputs[0].shape.count(2) > LargestWhole(query.context.dtype)) {
    return Support::No("the element type of the mask cannot hold all positions");
  }
  return SupportsCudaFloats(query);
}

size_t CudaMaskUnpoolScratch(const OpDesc& query) {
  const Sizes sizes(query.context.inputs[0].shape, query.info.outputs[0].shape);
  return static_cast<size_t>(sizes.at_once * sizes.places) * sizeof(int32_t);
}

void ForwardCudaMaskUnpool(const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Sizes sizes(args.inputs[0].shape(), args.outputs[0].shape());
  auto* owners = reinterpret_cast<int32_t*>(args.scratch.data());
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    for (int64_t p = 0; p < sizes.planes; p += sizes.at_once) {
      const int64_t planes = std::min(sizes.at_once, sizes.planes - p);
      FindOwners(queue, sizes, planes, Elements<T>(args.inputs[1]) + p * sizes.cells, owners);
      PutValues(queue, sizes, planes, owners, Elements<T>(args.inputs[0]) + p * sizes.cells,
                Elements<T>(args.outputs[0]) + p * sizes.places);
    }
  });
}

void BackwardCudaMaskUnpool(const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  ZeroCudaGradients(queue, args.input_grads.subspan(1));
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const Sizes sizes(dx.shape(), args.output_grads[0].shape());
  auto* owners = reinterpret_cast<int32_t*>(args.scratch.data());
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    for (int64_t p = 0; p < sizes.planes; p += sizes.at_once) {
      const int64_t planes = std::min(sizes.at_once, sizes.planes - p);
      const T* mask = Elements<T>(args.inputs[1]) + p * sizes.cells;
      FindOwners(queue, sizes, planes, mask, owners);
      TakeGradients(queue, sizes, planes, owners, mask,
                    Elements<T>(args.output_grads[0]) + p * sizes.places,
                    Elements<T>(dx) + p * sizes.cells);
    }
  });
}

}  // namespace crema
