// ROIPooling on the GPU; see roi_pooling.cc.
#include "crema.pb.h"
#include "layers/detection/region_tables.cuh"

namespace crema {
namespace {

struct WholeRule {
  double scale;
  CREMA_HOST_DEVICE RegionSide Side(double low, double high, int64_t bins) const {
    return WholeSide(low, high, scale, bins);
  }
  CREMA_HOST_DEVICE BinRange Places(const RegionSide& side, int64_t bin, int64_t extent) const {
    return BinOf(side.start, side.bin, bin, extent);
  }
};

WholeRule RuleOf(const Layer& layer) {
  return {double{layer.param().roi_pooling_param().spatial_scale()}};
}

// `taken` may be null.
template <typename T>
void Pool(const CudaQueue& queue, const RegionTables& tables, const T* x, T* y, int32_t* taken) {
  const RegionTables t = tables;
  const int64_t width = t.columns.extent;
  const int64_t plane = t.rows.extent * width;
  ForElements(
      queue, "ROIPooling", t.regions * t.channels * t.Bins(), [=] CREMA_HOST_DEVICE(int64_t i) {
        const RegionBin bin(t, i);
        const int64_t image = t.image[bin.region];
        const T* from = x + (image * t.channels + bin.channel) * plane;
        const BinRange rows = t.rows.Places(bin.region, bin.row);
        const BinRange columns = t.columns.Places(bin.region, bin.column);
        int64_t best = -1;
        float most = image < 0 ? NoRegion() : 0;
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          for (int64_t at = row * width + columns.begin; at < row * width + columns.end; ++at) {
            const float value = ToFloat(from[at]);
            if (best >= 0 && !(value > most)) continue;
            best = at;
            most = value;
          }
        }
        y[i] = FromFloat<T>(most);
        if (taken != nullptr) taken[i] = static_cast<int32_t>(best);
      });
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const RegionTables t = MakeRegionTables<T>(args, args.outputs[0].shape(), RuleOf(layer), false);
    Pool(BoundQueue(args.context), t, Elements<T>(args.inputs[0]), Elements<T>(args.outputs[0]),
         Elements<int32_t>(At(args.saved, 0)));
  });
}

// Each position gathers from the bins that read it and whose maximum it is.
template <typename T>
void Spread(const CudaQueue& queue, const RegionTables& tables, const T* dy, const int32_t* taken,
            T* dx) {
  const RegionTables t = tables;
  const int64_t plane = t.rows.extent * t.columns.extent;
  ForElements(queue, "ROIPoolingBackward", t.images * t.channels * plane,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const MapPlace place(t, t.channels, i);
                const auto own = static_cast<int32_t>(i % plane);
                float sum = 0;
                for (int64_t r = 0; r < t.regions; ++r) {
                  if (t.image[r] != place.image) continue;
                  const BinRange rows = t.rows.Owners(r, place.row);
                  if (rows.size() == 0) continue;
                  const BinRange columns = t.columns.Owners(r, place.column);
                  const int64_t first = (r * t.channels + place.channel) * t.Bins();
                  for (int64_t row = rows.begin; row < rows.end; ++row) {
                    const int64_t line = first + row * t.columns.bins;
                    for (int64_t o = line + columns.begin; o < line + columns.end; ++o) {
                      if (taken[o] == own) sum += ToFloat(dy[o]);
                    }
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
    const RegionTables t =
        MakeRegionTables<T>(args, args.output_grads[0].shape(), RuleOf(layer), false);
    FillOwners(queue, t, t.rows);
    FillOwners(queue, t, t.columns);
    Spread(queue, t, Elements<T>(args.output_grads[0]), Elements<int32_t>(args.saved[0]),
           Elements<T>(dx));
  });
}

}  // namespace

void RegisterROIPoolingCuda(Registry& registry) {
  registry.AddImplementation(
      "ROIPooling", MakeCudaImplementation(Forward, Backward,
                                           {.forward_scratch = RegionTablesScratch<false>,
                                            .backward_scratch = RegionTablesScratch<false>}));
}

}  // namespace crema
