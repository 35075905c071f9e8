// PSROIPooling on the GPU; see psroi_pooling.cc.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct PixelRule {
  double scale;
  CREMA_HOST_DEVICE RegionSide Side(double low, double high, int64_t bins) const {
    return PixelSide(low, high, scale, bins);
  }
  CREMA_HOST_DEVICE BinRange Places(const RegionSide& side, int64_t bin, int64_t extent) const {
    return BinOf(side.start, side.bin, bin, extent);
  }
};

PixelRule RuleOf(const Layer& layer) {
  return {double{layer.param().psroi_pooling_param().spatial_scale()}};
}

// Each pair of output channel and bin is one channel of the map.
template <typename T>
void Pool(const CudaQueue& queue, const RegionTables& tables, const T* x, T* y) {
  const RegionTables t = tables;
  const int64_t channels = t.channels * t.Bins();
  const int64_t width = t.columns.extent;
  ForElements(queue, "PSROIPooling", t.regions * channels, [=] CREMA_HOST_DEVICE(int64_t i) {
    const RegionBin bin(t, i);
    const int64_t image = t.image[bin.region];
    const T* from = x + (image * channels + i % channels) * t.rows.extent * width;
    const BinRange rows = t.rows.Places(bin.region, bin.row);
    const BinRange columns = t.columns.Places(bin.region, bin.column);
    float sum = 0;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      for (int64_t at = row * width + columns.begin; at < row * width + columns.end; ++at) {
        sum += ToFloat(from[at]);
      }
    }
    const int64_t count = rows.size() * columns.size();
    const float mean = count == 0 ? 0 : sum / static_cast<float>(count);
    y[i] = FromFloat<T>(image < 0 ? NoRegion() : mean);
  });
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const RegionTables t = MakeRegionTables<T>(args, args.outputs[0].shape(), RuleOf(layer), false);
    Pool(BoundQueue(args.context), t, Elements<T>(args.inputs[0]), Elements<T>(args.outputs[0]));
  });
}

// In each region, exactly one bin reads the channel of a position.
template <typename T>
void Spread(const CudaQueue& queue, const RegionTables& tables, const T* dy, T* dx) {
  const RegionTables t = tables;
  const int64_t channels = t.channels * t.Bins();
  ForElements(queue, "PSROIPoolingBackward", t.images * channels * t.rows.extent * t.columns.extent,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const MapPlace place(t, channels, i);
                const RegionBin bin(t, place.channel);
                float sum = 0;
                for (int64_t r = 0; r < t.regions; ++r) {
                  if (t.image[r] != place.image) continue;
                  const BinRange rows = t.rows.Places(r, bin.row);
                  if (!rows.Has(place.row)) continue;
                  const BinRange columns = t.columns.Places(r, bin.column);
                  if (!columns.Has(place.column)) continue;
                  sum += ToFloat(dy[r * channels + place.channel]) /
                         static_cast<float>(rows.size() * columns.size());
                }
                dx[i] = FromFloat<T>(sum);
              });
}

void Backward(const Layer& layer, const BackwardArgs& args) {
  const TensorView& dx = args.input_grads[0];
  if (dx.empty()) return;
  DispatchCudaFloat(dx.dtype(), [&]<typename T>(T) {
    const RegionTables t =
        MakeRegionTables<T>(args, args.output_grads[0].shape(), RuleOf(layer), false);
    Spread(BoundQueue(args.context), t, Elements<T>(args.output_grads[0]), Elements<T>(dx));
  });
}

}  // namespace

void RegisterPSROIPoolingCuda(Registry& registry) {
  registry.AddImplementation(
      "PSROIPooling", MakeCudaImplementation(Forward, Backward,
                                             {.forward_scratch = RegionTablesScratch<false>,
                                              .backward_scratch = RegionTablesScratch<false>}));
}

}  // namespace crema
