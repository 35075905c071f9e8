// PSROIAlign and DeformablePSROIPooling on the GPU; see position_sensitive.cc.
#include "crema.pb.h"
#include "layers/detection/position_sensitive.h"
#include "layers/detection/region_tables.cuh"
#include "layers/gpu_implementation.h"

namespace crema {
namespace {

template <typename T>
void Pool(const CudaQueue& queue, const PositionSensitive& of, const RegionTables& t,
          const T* regions, const T* offsets, int64_t map_channels, const T* x, T* y) {
  const PositionSensitive p = of;
  const int64_t* image = t.image;
  const int64_t plane = p.height * p.width, bins = p.bins;
  ForElements(queue, "PositionSensitive", t.regions * p.channels * bins * bins,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t c = i / (bins * bins) % p.channels;
                const int64_t r = i / (bins * bins) / p.channels;
                if (image[r] < 0) {
                  y[i] = FromFloat<T>(NoRegion());
                  return;
                }
                const int64_t row = i / bins % bins, column = i % bins;
                const BinSamples samples(p, regions + 5 * r + 1, offsets, r, c, row, column);
                const int64_t channel = image[r] * map_channels + p.MapChannel(c, row, column);
                y[i] = FromFloat<T>(static_cast<float>(samples.Mean(x + channel * plane)));
              });
}

// Each element of the map gathers from the bins that read it.
template <typename T>
void MapGradient(const CudaQueue& queue, const PositionSensitive& of, const RegionTables& t,
                 const T* regions, const T* offsets, int64_t map_channels, const T* dy, T* dx) {
  const PositionSensitive p = of;
  const int64_t* image = t.image;
  const int64_t count = t.regions, plane = p.height * p.width;
  ForElements(queue, "PositionSensitiveMap", t.images * map_channels * plane,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t channel = i / plane % map_channels, n = i / plane / map_channels;
                const int64_t c = channel / (p.cells * p.cells);
                float sum = 0;
                for (int64_t r = 0; r < count; ++r) {
                  if (image[r] != n) continue;
                  for (int64_t bin = 0; bin < p.bins * p.bins; ++bin) {
                    const int64_t row = bin / p.bins, column = bin % p.bins;
                    if (p.MapChannel(c, row, column) != channel) continue;
                    const BinSamples samples(p, regions + 5 * r + 1, offsets, r, c, row, column);
                    sum += static_cast<float>(samples.Share(i / p.width % p.height, i % p.width)) *
                           ToFloat(dy[(r * p.channels + c) * p.bins * p.bins + bin]);
                  }
                }
                dx[i] = FromFloat<T>(sum);
              });
}

// Each offset gathers from the bins that it moves.
template <typename T>
void OffsetGradient(const CudaQueue& queue, const PositionSensitive& of, const RegionTables& t,
                    const T* regions, const T* offsets, int64_t map_channels, const T* x,
                    const T* dy, T* doffsets) {
  const PositionSensitive p = of;
  const int64_t* image = t.image;
  const int64_t plane = p.height * p.width, parts = p.parts * p.parts;
  ForElements(queue, "PositionSensitiveOffsets", t.regions * p.classes * 2 * parts,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t k = i / parts / 2 % p.classes, r = i / parts / 2 / p.classes;
                float sum = 0;
                for (int64_t bin = 0; image[r] >= 0 && bin < p.bins * p.bins; ++bin) {
                  const int64_t row = bin / p.bins, column = bin % p.bins;
                  if (p.Part(row) * p.parts + p.Part(column) != i % parts) continue;
                  for (int64_t c = k * p.class_channels; c < (k + 1) * p.class_channels; ++c) {
                    const BinSamples samples(p, regions + 5 * r + 1, offsets, r, c, row, column);
                    const int64_t channel = image[r] * map_channels + p.MapChannel(c, row, column);
                    sum += static_cast<float>(samples.Slope(x + channel * plane, i / parts % 2)) *
                           ToFloat(dy[(r * p.channels + c) * p.bins * p.bins + bin]);
                  }
                }
                doffsets[i] = FromFloat<T>(sum);
              });
}

struct GpuPositionSensitive {
  template <typename Args>
  static PositionSensitive Parameters(const Layer& layer, const Args& args) {
    const bool offsets = args.inputs.size() > 2;
    return {layer, args.inputs[0].shape(), offsets ? args.inputs[2].shape() : Shape{}};
  }

  // Returns null if the layer has no offsets, or does not use them.
  template <typename Args>
  static auto Offsets(const Layer& layer, const Args& args) {
    const bool uses = !layer.param().deformable_psroi_pooling_param().no_trans();
    return uses ? args.x(2) : nullptr;
  }

  template <typename Args>
  static RegionTables Images(const PositionSensitive& p, const Args& args) {
    RegionTables t{.regions = args.inputs[1].shape()[0], .images = args.inputs[0].shape()[0]};
    t.image = ScratchCutter(args.scratch).template Take<int64_t>(t.regions);
    FillImages(args.queue, args.x(1), p.scale, t);
    return t;
  }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const PositionSensitive p = Parameters(layer, args);
    Pool(args.queue, p, Images(p, args), args.x(1), Offsets(layer, args), args.inputs[0].shape()[1],
         args.x(), args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const PositionSensitive p = Parameters(layer, args);
    const RegionTables t = Images(p, args);
    const T* offsets = Offsets(layer, args);
    const int64_t channels = args.inputs[0].shape()[1];
    if (args.dx() != nullptr) {
      MapGradient(args.queue, p, t, args.x(1), offsets, channels, args.dy(), args.dx());
    }
    if (args.dx(2) == nullptr) return;
    OffsetGradient(args.queue, p, t, args.x(1), offsets, channels, args.x(), args.dy(), args.dx(2));
  }

  static size_t Scratch(const OpDesc& query) {
    return ScratchBytes<int64_t>(query.context.inputs[1].shape[0]) + kScratchSlack;
  }
};

}  // namespace

void RegisterPSROIAlignCuda(Registry& registry) {
  registry.AddImplementation("PSROIAlign", CudaImplementation<GpuPositionSensitive>());
}

void RegisterDeformablePSROIPoolingCuda(Registry& registry) {
  registry.AddImplementation("DeformablePSROIPooling", CudaImplementation<GpuPositionSensitive>());
}

}  // namespace crema
