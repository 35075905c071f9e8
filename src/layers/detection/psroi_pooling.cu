// PSROIPooling on the GPU; see psroi_pooling.cc.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct GpuPsroiPooling {
  template <typename Args>
  static RegionTables TablesOf(const Layer& layer, const Args& args, const Shape& out) {
    const BinRule<PixelSide> rule{double{layer.param().psroi_pooling_param().spatial_scale()}};
    return MakeRegionTables(args, out, rule, false);
  }

  // Each pair of output channel and bin is one channel of the map.
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.outputs[0].shape());
    const int64_t width = t.columns.map_size;
    PoolRegions(args, "PSROIPooling", t, true,
                [=] CREMA_HOST_DEVICE(int64_t, const RegionBin&, const T* x, const BinRange& rows,
                                      const BinRange& columns) {
                  float sum = 0;
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    const int64_t line = row * width;
                    for (int64_t at = line + columns.begin; at < line + columns.end; ++at) {
                      sum += ToFloat(x[at]);
                    }
                  }
                  const int64_t count = rows.size() * columns.size();
                  return count == 0 ? 0 : sum / static_cast<float>(count);
                });
  }

  // In each region, exactly one bin reads the channel of a position.
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.output_grads[0].shape());
    const int64_t channels = t.channels * t.Bins();
    const T* dy = args.dy();
    SpreadRegions(args, "PSROIPoolingBackward", t, channels,
                  [=] CREMA_HOST_DEVICE(int64_t, const MapPlace& place, int64_t r, float* sum) {
                    const RegionBin bin(t, place.channel);
                    const BinRange rows = t.rows.Places(r, bin.row);
                    const BinRange columns = t.columns.Places(r, bin.column);
                    if (!rows.Has(place.row) || !columns.Has(place.column)) return;
                    *sum += ToFloat(dy[r * channels + place.channel]) /
                            static_cast<float>(rows.size() * columns.size());
                  });
  }

  static size_t Scratch(const OpDesc& query) { return RegionTablesScratch(query, false); }
};

}  // namespace

void RegisterPSROIPoolingCuda(Registry& registry) {
  registry.AddImplementation("PSROIPooling", CudaImplementation<GpuPsroiPooling>());
}

}  // namespace crema
