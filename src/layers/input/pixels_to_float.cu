// PixelsToFloat on the GPU; see pixels_to_float.h. A mean image is uploaded once, in the first pass
// of a session.
#include <limits>
#include <memory>

#include "core/device_memory.h"
#include "crema.pb.h"
#include "layers/gpu_implementation.h"
#include "layers/input/pixels_to_float.h"

namespace crema {
namespace {

// Means per channel, passed as arguments of the kernel.
constexpr int kMostMeans = PixelsToFloat::kMostMeansOnGpu;
struct ChannelMeans {
  float values[kMostMeans];
  int count;
  CREMA_HOST_DEVICE float Of(int64_t channel) const { return values[count == 1 ? 0 : channel]; }
};

// Mean image, C x height x width, in device memory; null means none.
struct DeviceMean {
  const float* values;
  int64_t height, width;
  // Returns true if `rows` x `columns` pixels placed at `at` are inside the mean image.
  CREMA_HOST_DEVICE bool Holds(const PixelPlacement& at, int64_t rows, int64_t columns) const {
    return at.top >= 0 && at.left >= 0 && at.top + rows <= height && at.left + columns <= width;
  }
};

class MeanState final : public ImplementationState {
 public:
  // Returns the mean image on the device. The first call uploads it and waits.
  const float* Values(const ExecContext& context, const MeanImage& mean) {
    if (values_.view().empty()) {
      values_ = Tensor(mean.shape, DType::kF32, context.allocator());
      Upload(context, values_.view().raw(), mean.values.data(), values_.view().bytes());
    }
    return values_.view().data<float>();
  }

 private:
  Tensor values_;
};

const MeanImage* MeanOf(const OpDesc& query) {
  return static_cast<const PixelsToFloat&>(query.layer).mean();
}

Support Supports(const OpDesc& query) {
  const TransformationParameter& transform = query.layer.param().transform_param();
  if (transform.mean_value_size() > kMostMeans) return Support::No("takes at most 16 mean_value");
  return SupportsCudaFloats(query);
}

class PixelsImplementation final : public FunctionImplementation {
 public:
  using FunctionImplementation::FunctionImplementation;
  std::unique_ptr<ImplementationState> MakeState(const OpDesc& op) const override {
    return MeanOf(op) == nullptr ? nullptr : std::make_unique<MeanState>();
  }
};

size_t StateBytes(const OpDesc& query) {
  const MeanImage* mean = MeanOf(query);
  return mean == nullptr ? 0 : mean->values.size() * sizeof(float);
}

ChannelMeans MeansOf(const TransformationParameter& transform) {
  ChannelMeans means = {.values = {0}, .count = std::max(1, transform.mean_value_size())};
  std::copy(transform.mean_value().begin(), transform.mean_value().end(), means.values);
  return means;
}

struct Pixels {
  const uint8_t* pixels;
  const uint8_t* placements;  // null means none
  DeviceMean mean;
  ChannelMeans means;
  float scale;
};

// One thread per pixel: it reads the channels of the pixel together, and neighbouring threads write
// neighbouring elements. Difference and product are rounded one by one, as on the CPU: no sum
// follows a product, so nothing can be contracted. Pixels outside the mean image become NaN; on the
// CPU they are an error.
template <typename T>
void Convert(const CudaQueue& queue, const Shape& shape, const Pixels& from, T* y) {
  const int64_t height = shape[1], width = shape[2], channels = shape[3];
  const int64_t plane = height * width;
  ForElements(queue, "PixelsToFloat", shape[0] * plane, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t n = i / plane, pixel = i % plane, row = pixel / width;
    const PixelPlacement at = from.placements == nullptr
                                  ? PixelPlacement{}
                                  : LoadPlacement(from.placements + n * kPlacementBytes);
    const int64_t column = at.mirror ? width - 1 - pixel % width : pixel % width;
    const uint8_t* x = from.pixels + (n * plane + row * width + column) * channels;
    T* out = y + n * channels * plane + pixel;
    const DeviceMean& mean = from.mean;
    const bool lies_in = mean.values == nullptr || mean.Holds(at, height, width);
    for (int64_t c = 0; c < channels; ++c) {
      float subtracted = std::numeric_limits<float>::quiet_NaN();
      if (mean.values == nullptr) {
        subtracted = from.means.Of(c);
      } else if (lies_in) {
        const int64_t above = c * mean.height + at.top + row;
        subtracted = mean.values[above * mean.width + at.left + column];
      }
      out[c * plane] = FromFloat<T>((static_cast<float>(x[c]) - subtracted) * from.scale);
    }
  });
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  const TransformationParameter& transform = layer.param().transform_param();
  Pixels from{.pixels = Elements<uint8_t>(x),
              .placements = args.inputs.size() > 1 ? Elements<uint8_t>(args.inputs[1]) : nullptr,
              .mean = {nullptr, 0, 0},
              .means = MeansOf(transform),
              .scale = transform.scale()};
  if (const MeanImage* mean = static_cast<const PixelsToFloat&>(layer).mean()) {
    auto& state = *static_cast<MeanState*>(args.implementation_state);
    from.mean = {state.Values(args.context, *mean), mean->shape[1], mean->shape[2]};
  }
  DispatchCudaFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
    Convert(BoundQueue(args.context), x.shape(), from, Elements<T>(args.outputs[0]));
  });
}

}  // namespace

void RegisterPixelsToFloatCuda(Registry& registry) {
  registry.AddImplementation(
      "PixelsToFloat", MakeCudaImplementation<PixelsImplementation>(
                           Forward, nullptr, {.supports = Supports, .state_bytes = StateBytes}));
}

}  // namespace crema
