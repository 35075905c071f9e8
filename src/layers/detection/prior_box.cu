// PriorBox on the GPU; see prior_box.cc.
#include "crema.pb.h"
#include "layers/detection/fixed_list.h"
#include "layers/detection/prior_boxes.h"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

// Capacities of lists that are passed as kernel arguments.
constexpr int kMostSizes = 64;
constexpr int kMostOffsets = 16;

using Ratios = FixedList<double, kMostSizes>;
using Sizes = FixedList<PriorSize, kMostSizes>;
using Offsets = FixedList<PriorOffset, kMostOffsets>;

struct Priors {
  PriorGrid grid;
  Sizes sizes;
  Offsets offsets;
  float variances[4];
  bool clip;
};

Priors PriorsOf(const PriorBoxParameter& p, const Shape& map, const Shape& image) {
  Priors priors{.grid = MakePriorGrid(p, map, image),
                .sizes = PriorSizes<Ratios, Sizes>(p),
                .offsets = PriorOffsets<Offsets>(p),
                .variances = {},
                .clip = p.clip()};
  for (int k = 0; k < 4; ++k) priors.variances[k] = static_cast<float>(PriorVariance(p, k));
  return priors;
}

// Returns coordinate `k` of 0..3.
CREMA_HOST_DEVICE inline double Corner(const Box& box, int64_t k) {
  if (k == 0) return box.xmin;
  if (k == 1) return box.ymin;
  return k == 2 ? box.xmax : box.ymax;
}

struct GpuPriorBox {
  // One thread per coordinate; it also writes the variance in row 1.
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Priors p =
        PriorsOf(layer.param().prior_box_param(), args.inputs[0].shape(), args.inputs[1].shape());
    T* out = args.y();
    const int64_t boxes = int64_t{p.sizes.count} * p.offsets.count;
    const int64_t row_values = p.grid.height * p.grid.width * boxes * 4;
    ForElements(args.queue, "PriorBox", row_values, [=] CREMA_HOST_DEVICE(int64_t i) {
      const int64_t box = i / 4 % boxes;
      const int64_t place = i / 4 / boxes;
      const Box prior =
          PriorAt(p.grid, static_cast<double>(place / p.grid.width),
                  static_cast<double>(place % p.grid.width), p.sizes.values[box / p.offsets.count],
                  p.offsets.values[box % p.offsets.count], p.clip);
      out[i] = FromFloat<T>(static_cast<float>(Corner(prior, i % 4)));
      out[row_values + i] = FromFloat<T>(p.variances[i % 4]);
    });
  }

  // Compares upper limits, which include flipped ratios.
  static Support Supports(const OpDesc& query) {
    const PriorBoxParameter& p = query.layer.param().prior_box_param();
    const int64_t ratios = 1 + 2 * int64_t{p.aspect_ratio_size()};
    const int64_t sizes = p.width_size() + p.min_size_size() * (ratios + 1);
    if (std::max(ratios, sizes) > kMostSizes || p.offset_h_size() > kMostOffsets) {
      return Support::No("takes at most 64 boxes at a point and 16 points in a cell");
    }
    return SupportsCudaFloats(query);
  }
};

}  // namespace

void RegisterPriorBoxCuda(Registry& registry) {
  registry.AddImplementation("PriorBox", CudaImplementation<GpuPriorBox>());
}

}  // namespace crema
