// ROIAlign on the GPU; see roi_align.cc. The weight of a position in a bin is the product of a row
// weight and a column weight, each summed over the samples along that axis.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct ExactRule {
  double scale;
  CREMA_HOST_DEVICE RegionSide Side(double low, double high, int64_t bins) const {
    return ExactSide(low, high, scale, bins);
  }
  // Samples are at most one position apart, so they touch all positions in between.
  CREMA_HOST_DEVICE BinRange Places(const RegionSide& side, int64_t bin, int64_t extent) const {
    const AxisSamples samples = SamplesOf(side, bin, extent);
    BinRange places{0, 0};
    for (int64_t k = samples.begin; k < samples.end; ++k) {
      const double at = samples.At(k);
      if (!OnMap(at, extent)) continue;
      const AxisSample sample = SampleAt(at, extent);
      if (places.end == 0) places.begin = sample.low;
      places.end = sample.high + 1;
    }
    return places;
  }
};

ExactRule RuleOf(const Layer& layer) {
  return {double{layer.param().roi_align_param().spatial_scale()}};
}

CREMA_HOST_DEVICE inline float WeightAt(AxisSamples samples, int64_t place, int64_t extent) {
  samples.Limit(static_cast<double>(place - 1), static_cast<double>(place + 1));
  double sum = 0;
  for (int64_t k = samples.begin; k < samples.end; ++k) {
    const double at = samples.At(k);
    if (!OnMap(at, extent)) continue;
    const AxisSample sample = SampleAt(at, extent);
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
  ForElements(queue, "ROIAlignWeights", t.regions * a.bins * a.extent,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t r = i / a.extent / a.bins;
                const int64_t bin = i / a.extent % a.bins;
                const int64_t place = i % a.extent;
                if (!a.Places(r, bin).Has(place)) {
                  a.weights[i] = 0;
                  return;
                }
                const RegionSide side =
                    rule.Side(static_cast<double>(ToFloat(regions[5 * r + first])),
                              static_cast<double>(ToFloat(regions[5 * r + first + 2])), a.bins);
                a.weights[i] = WeightAt(SamplesOf(side, bin, a.extent), place, a.extent);
              });
}

template <typename T, typename Args>
RegionTables MakeTables(const Layer& layer, const Args& args, const Shape& out) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ExactRule rule = RuleOf(layer);
  const RegionTables t = MakeRegionTables<T>(args, out, rule, true);
  const T* regions = Elements<T>(args.inputs[1]);
  FillWeights(queue, regions, 2, rule, t, t.rows);
  FillWeights(queue, regions, 1, rule, t, t.columns);
  return t;
}

template <typename T>
void Pool(const CudaQueue& queue, const RegionTables& tables, const T* x, T* y) {
  const RegionTables t = tables;
  const int64_t width = t.columns.extent;
  const int64_t plane = t.rows.extent * width;
  ForElements(queue, "ROIAlign", t.regions * t.channels * t.Bins(),
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const RegionBin bin(t, i);
                const int64_t image = t.image[bin.region];
                const T* from = x + (image * t.channels + bin.channel) * plane;
                const BinRange rows = t.rows.Places(bin.region, bin.row);
                const BinRange columns = t.columns.Places(bin.region, bin.column);
                const float* down = t.rows.Weights(bin.region, bin.row);
                const float* across = t.columns.Weights(bin.region, bin.column);
                float sum = image < 0 ? NoRegion() : 0;
                for (int64_t row = rows.begin; row < rows.end; ++row) {
                  float line = 0;
                  for (int64_t column = columns.begin; column < columns.end; ++column) {
                    line += across[column] * ToFloat(from[row * width + column]);
                  }
                  sum += down[row] * line;
                }
                y[i] = FromFloat<T>(sum);
              });
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const RegionTables t = MakeTables<T>(layer, args, args.outputs[0].shape());
    Pool(BoundQueue(args.context), t, Elements<T>(args.inputs[0]), Elements<T>(args.outputs[0]));
  });
}

// Each position gathers from the bins that read it.
template <typename T>
void Spread(const CudaQueue& queue, const RegionTables& tables, const T* dy, T* dx) {
  const RegionTables t = tables;
  const int64_t plane = t.rows.extent * t.columns.extent;
  ForElements(queue, "ROIAlignBackward", t.images * t.channels * plane,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const MapPlace place(t, t.channels, i);
                float sum = 0;
                for (int64_t r = 0; r < t.regions; ++r) {
                  if (t.image[r] != place.image) continue;
                  const BinRange rows = t.rows.Owners(r, place.row);
                  if (rows.size() == 0) continue;
                  const BinRange columns = t.columns.Owners(r, place.column);
                  const T* from = dy + (r * t.channels + place.channel) * t.Bins();
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    float line = 0;
                    for (int64_t column = columns.begin; column < columns.end; ++column) {
                      line += t.columns.Weights(r, column)[place.column] *
                              ToFloat(from[row * t.columns.bins + column]);
                    }
                    sum += t.rows.Weights(r, row)[place.row] * line;
                  }
                }
                dx[i] = FromFloat<T>(sum);
              });
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    const RegionTables t = MakeTables<T>(layer, args, args.output_grads[0].shape());
    FillOwners(queue, t, t.rows);
    FillOwners(queue, t, t.columns);
    Spread(queue, t, Elements<T>(args.output_grads[0]), Elements<T>(dx));
  });
}

}  // namespace

void RegisterROIAlignCuda(Registry& registry) {
  registry.AddImplementation(
      "ROIAlign", MakeCudaImplementation(Forward, Backward,
                                         {.forward_scratch = RegionTablesScratch<true>,
                                          .backward_scratch = RegionTablesScratch<true>}));
}

}  // namespace crema
