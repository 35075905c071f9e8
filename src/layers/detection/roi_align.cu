// ROIAlign on the GPU; see roi_align.cc. The weight of a position in a bin is the product of a row
// weight and a column weight, each summed over the samples along that axis.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct ExactRule {
  double scale;
  int64_t ratio;
  bool aligned;
  CREMA_HOST_DEVICE RegionSide Side(double low, double high, int64_t bins) const {
    return ExactSide(low, high, scale, bins, aligned);
  }
  // All positions from the first to the last one that samples touch.
  CREMA_HOST_DEVICE BinRange Places(const RegionSide& side, int64_t bin, int64_t map_size) const {
    const AxisSamples samples = SamplesOf(side, bin, map_size, ratio);
    BinRange places{0, 0};
    for (int64_t k = samples.begin; k < samples.end; ++k) {
      const double at = samples.At(k);
      if (!OnMap(at, map_size)) continue;
      const AxisSample sample = SampleAt(at, map_size);
      if (places.end == 0 || sample.low < places.begin) places.begin = sample.low;
      places.end = std::max(places.end, sample.high + 1);
    }
    return places;
  }
};

CREMA_HOST_DEVICE inline float WeightAt(AxisSamples samples, int64_t place, int64_t map_size) {
  samples.Limit(static_cast<double>(place - 1), static_cast<double>(place + 1));
  double sum = 0;
  for (int64_t k = samples.begin; k < samples.end; ++k) {
    const double at = samples.At(k);
    if (!OnMap(at, map_size)) continue;
    const AxisSample sample = SampleAt(at, map_size);
    if (sample.low == place) sum += 1 - sample.high_weight;
    if (sample.high == place) sum += sample.high_weight;
  }
  return static_cast<float>(sum / static_cast<double>(samples.count));
}

template <typename T>
void FillWeights(const CudaQueue& queue, const T* regions, int64_t first, const ExactRule& of,
                 const RegionTables& t, const RegionAxis& axis) {
  const RegionAxis a = axis;
  const ExactRule rule = of;
  ForElements(
      queue, "ROIAlignWeights", t.regions * a.bins * a.map_size, [=] CREMA_HOST_DEVICE(int64_t i) {
        const int64_t r = i / a.map_size / a.bins;
        const int64_t bin = i / a.map_size % a.bins;
        const int64_t place = i % a.map_size;
        if (!a.Places(r, bin).Has(place)) {
          a.weights[i] = 0;
          return;
        }
        const RegionSide side =
            rule.Side(static_cast<double>(ToFloat(regions[5 * r + first])),
                      static_cast<double>(ToFloat(regions[5 * r + first + 2])), a.bins);
        a.weights[i] = WeightAt(SamplesOf(side, bin, a.map_size, rule.ratio), place, a.map_size);
      });
}

struct GpuRoiAlign {
  template <typename Args>
  static RegionTables TablesOf(const Layer& layer, const Args& args, const Shape& out) {
    const ROIAlignParameter& param = layer.param().roi_align_param();
    const ExactRule rule{double{param.spatial_scale()}, param.sampling_ratio(), param.aligned()};
    const RegionTables t = MakeRegionTables(args, out, rule, true);
    FillWeights(args.queue, args.x(1), 2, rule, t, t.rows);
    FillWeights(args.queue, args.x(1), 1, rule, t, t.columns);
    return t;
  }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.outputs[0].shape());
    PoolRegions(args, "ROIAlign", t, false,
                [=] CREMA_HOST_DEVICE(int64_t, const RegionBin& bin, const T* x,
                                      const BinRange& rows, const BinRange& columns) {
                  const float* down = t.rows.Weights(bin.region, bin.row);
                  const float* across = t.columns.Weights(bin.region, bin.column);
                  float sum = 0;
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    float line = 0;
                    for (int64_t column = columns.begin; column < columns.end; ++column) {
                      line += across[column] * ToFloat(x[row * t.columns.map_size + column]);
                    }
                    sum += down[row] * line;
                  }
                  return sum;
                });
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const RegionTables t = TablesOf(layer, args, args.output_grads[0].shape());
    FillOwners(args.queue, t, t.rows);
    FillOwners(args.queue, t, t.columns);
    const T* dy = args.dy();
    SpreadRegions(args, "ROIAlignBackward", t, t.channels,
                  [=] CREMA_HOST_DEVICE(int64_t, const MapPlace& place, int64_t r, float* sum) {
                    const BinRange rows = t.rows.Owners(r, place.row);
                    const BinRange columns = t.columns.Owners(r, place.column);
                    const T* from = dy + (r * t.channels + place.channel) * t.Bins();
                    for (int64_t row = rows.begin; row < rows.end; ++row) {
                      float line = 0;
                      for (int64_t column = columns.begin; column < columns.end; ++column) {
                        line += t.columns.Weights(r, column)[place.column] *
                                ToFloat(from[row * t.columns.bins + column]);
                      }
                      *sum += t.rows.Weights(r, row)[place.row] * line;
                    }
                  });
  }

  static size_t Scratch(const OpDesc& query) { return RegionTablesScratch(query, true); }
};

}  // namespace

void RegisterROIAlignCuda(Registry& registry) {
  registry.AddImplementation("ROIAlign", CudaImplementation<GpuRoiAlign>());
}

}  // namespace crema
