// PixelsToFloat on the GPU; see pixels_to_float.cc. A mean image lies in memory of the host, so
// nets with one are not for GPUs.
#include "layers/gpu_row.h"

namespace crema {
namespace {

// By channel; they go to the GPU as arguments of the kernel.
constexpr int kMostMeans = 16;
struct ChannelMeans {
  float values[kMostMeans];
  int count;
  CREMA_HOST_DEVICE float Of(int64_t channel) const { return values[count == 1 ? 0 : channel]; }
};

Support Supports(const KernelQuery& query) {
  const TransformationParameter& transform = query.layer.param().transform_param();
  if (transform.has_mean_file()) return Support::No("takes no mean_file, only mean_value");
  if (transform.mean_value_size() > kMostMeans) return Support::No("takes at most 16 mean_value");
  return SupportsCudaFloats(query);
}

ChannelMeans MeansOf(const TransformationParameter& transform) {
  ChannelMeans means = {.values = {0}, .count = std::max(1, transform.mean_value_size())};
  std::copy(transform.mean_value().begin(), transform.mean_value().end(), means.values);
  return means;
}

// A thread a pixel: it reads its channels together, and neighbours write beside each other.
template <typename T>
void Convert(const CudaQueue& queue, const Shape& shape, const TransformationParameter& transform,
             const uint8_t* x, T* y) {
  const int64_t channels = shape[3];
  const int64_t plane = shape.count(1, 3);
  const ChannelMeans means = MeansOf(transform);
  const float scale = transform.scale();
  ForElements(queue, "PixelsToFloat", shape[0] * plane, [=] CREMA_HOST_DEVICE(int64_t i) {
    T* out = y + i / plane * channels * plane + i % plane;
    for (int64_t c = 0; c < channels; ++c) {
      const auto pixel = static_cast<float>(x[i * channels + c]);
      out[c * plane] = FromFloat<T>((pixel - means.Of(c)) * scale);
    }
  });
}

void Forward(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(args.outputs[0].dtype(), [&]<typename T>(T) {
    Convert(BoundQueue(args.context), x.shape(), layer.param().transform_param(),
            Elements<uint8_t>(x), Elements<T>(args.outputs[0]));
  });
}

}  // namespace

void RegisterPixelsToFloatCuda(Registry& registry) {
  Kernel row = MakeCudaRow(Forward, nullptr);
  row.supports = Supports;
  registry.AddKernel("PixelsToFloat", std::move(row));
}

}  // namespace crema
