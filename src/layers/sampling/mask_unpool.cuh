// Unpooling by a mask on the GPU; see mask_unpool.h. If a mask element is not a position of
// the output, its value is dropped, because kernels cannot throw.
#pragma once

#include <algorithm>

#include "layers/gpu_implementation.h"
#include "layers/sampling/mask_unpool.h"
#include "layers/whole_numbers.h"
#include "layers/zero_gradient.cuh"

namespace crema {

constexpr int64_t kMostMaskBytes = int64_t{256}
                                   << 20;  // limit of scratch, unless one plane needs more

struct MaskUnpoolSize {
  MaskUnpoolSize(const Shape& input, const Shape& output)
      : planes(input.count(0, 2)), cells(input.count(2)), places(output.count(2)) {
    const int64_t bytes = std::max<int64_t>(1, places * static_cast<int64_t>(sizeof(int32_t)));
    at_once = std::min(planes, std::max<int64_t>(1, kMostMaskBytes / bytes));
  }
  int64_t planes, cells, places;
  int64_t at_once;  // planes processed together
};

// owner[place] = the last cell whose mask names the position, or -1, for each of `planes` planes,
// with one team per plane. Cells write in any order, repeatedly, until every position has its last
// cell. The result is therefore deterministic.
template <typename T>
static void FindOwners(const CudaQueue& queue, const MaskUnpoolSize& sizes, int64_t planes,
                       const T* masks, int32_t* owners) {
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
static void PutValues(const CudaQueue& queue, const MaskUnpoolSize& sizes, int64_t planes,
                      const int32_t* owners, const T* x, T* y) {
  const int64_t cells = sizes.cells, places = sizes.places;
  ForElements(queue, "MaskUnpool", planes * places, [=] CREMA_HOST_DEVICE(int64_t i) {
    y[i] = owners[i] < 0 ? FromFloat<T>(0) : x[i / places * cells + owners[i]];
  });
}

template <typename T>
static void TakeGradients(const CudaQueue& queue, const MaskUnpoolSize& sizes, int64_t planes,
                          const int32_t* owners, const T* mask, const T* dy, T* dx) {
  const int64_t cells = sizes.cells, places = sizes.places;
  ForElements(queue, "MaskUnpoolBackward", planes * cells, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t place = MaskPlace(ToFloat(mask[i]), places);
    const int64_t from = i / cells * places + place;
    const bool counts = place >= 0 && owners[from] == i % cells;
    dx[i] = counts ? dy[from] : FromFloat<T>(0);
  });
}

struct GpuMaskUnpool {
  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>& args) {
    const MaskUnpoolSize sizes(args.inputs[0].shape(), args.outputs[0].shape());
    auto* owners = reinterpret_cast<int32_t*>(args.scratch.data());
    for (int64_t p = 0; p < sizes.planes; p += sizes.at_once) {
      const int64_t planes = std::min(sizes.at_once, sizes.planes - p);
      FindOwners(args.queue, sizes, planes, args.x(1) + p * sizes.cells, owners);
      PutValues(args.queue, sizes, planes, owners, args.x(0) + p * sizes.cells,
                args.y() + p * sizes.places);
    }
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    ZeroCudaGradients(args.queue, args.input_grads.subspan(1));
    if (args.dx() == nullptr) return;
    const MaskUnpoolSize sizes(args.input_grads[0].shape(), args.output_grads[0].shape());
    auto* owners = reinterpret_cast<int32_t*>(args.scratch.data());
    for (int64_t p = 0; p < sizes.planes; p += sizes.at_once) {
      const int64_t planes = std::min(sizes.at_once, sizes.planes - p);
      const T* mask = args.x(1) + p * sizes.cells;
      FindOwners(args.queue, sizes, planes, mask, owners);
      TakeGradients(args.queue, sizes, planes, owners, mask, args.dy() + p * sizes.places,
                    args.dx() + p * sizes.cells);
    }
  }

  // Returns No if the element type of the mask cannot hold all positions.
  static Support Supports(const OpDesc& query) {
    if (query.info.outputs[0].shape.count(2) > LargestWhole(query.context.dtype)) {
      return Support::No("the element type of the mask cannot hold all positions");
    }
    return SupportsCudaFloats(query);
  }

  static size_t Scratch(const OpDesc& query) {
    const MaskUnpoolSize sizes(query.context.inputs[0].shape, query.info.outputs[0].shape);
    return static_cast<size_t>(sizes.at_once * sizes.places) * sizeof(int32_t);
  }
};

}  // namespace crema
