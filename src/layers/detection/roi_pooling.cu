// ROIPooling on the GPU; see roi_pooling.cc.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct GpuRoiPooling {
  template <typename Args>
  static RegionTables TablesOf(const Layer& layer, const Args& args, const Shape& out) {
    const BinRule<WholeSide> rule{double{layer.param().roi_pooling_param().spatial_scale()}};
    return MakeRegionTables(args, out, rule, false);
  }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.outputs[0].shape());
    const int64_t width = t.columns.map_size;
    auto* taken = args.template Saved<int32_t>();
    PoolRegions(args, "ROIPooling", t, false,
                [=] CREMA_HOST_DEVICE(int64_t i, const RegionBin&, const T* x, const BinRange& rows,
                                      const BinRange& columns) {
                  int64_t best = -1;
                  float most = 0;
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    const int64_t line = row * width;
                    for (int64_t at = line + columns.begin; at < line + columns.end; ++at) {
                      const float value = ToFloat(x[at]);
                      if (best >= 0 && !(value > most)) continue;
                      best = at;
                      most = value;
                    }
                  }
                  if (taken != nullptr) taken[i] = static_cast<int32_t>(best);
                  return most;
                });
  }

  // A position gathers from the bins whose maximum it is.
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.output_grads[0].shape());
    FillOwners(args.queue, t, t.rows);
    FillOwners(args.queue, t, t.columns);
    const T* dy = args.dy();
    const auto* taken = args.template Saved<int32_t>();
    SpreadRegions(args, "ROIPoolingBackward", t, t.channels,
                  [=] CREMA_HOST_DEVICE(int64_t i, const MapPlace& place, int64_t r, float* sum) {
                    const auto own =
                        static_cast<int32_t>(i % (t.rows.map_size * t.columns.map_size));
                    const BinRange rows = t.rows.Owners(r, place.row);
                    const BinRange columns = t.columns.Owners(r, place.column);
                    const int64_t first = (r * t.channels + place.channel) * t.Bins();
                    for (int64_t row = rows.begin; row < rows.end; ++row) {
                      const int64_t line = first + row * t.columns.bins;
                      for (int64_t o = line + columns.begin; o < line + columns.end; ++o) {
                        if (taken[o] == own) *sum += ToFloat(dy[o]);
                      }
                    }
                  });
  }

  static size_t Scratch(const OpDesc& query) { return RegionTablesScratch(query, false); }
};

}  // namespace

void RegisterROIPoolingCuda(Registry& registry) {
  registry.AddImplementation("ROIPooling", CudaImplementation<GpuRoiPooling>());
}

}  // namespace crema
