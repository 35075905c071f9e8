// Dropout on the GPU; see dropout.cc. The draws equal those on the CPU.
#include "crema.pb.h"
#include "layers/activation/dropout_rule.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/device_random.h"
#include "math/cuda/group_sums.cuh"

namespace crema {
namespace {

// Each thread draws four elements, the words of one random block. Null `saved` means that the mask
// is not saved.
template <typename T>
void DrawAndApply(const CudaQueue& queue, int64_t count, DeviceRandom random, uint32_t threshold,
                  float scale, const T* x, uint8_t* saved, T* y) {
  ForElements(queue, "DropoutForward", (count + 3) / 4, [=] CREMA_HOST_DEVICE(int64_t block) {
    const auto words = random.Now().Block(static_cast<uint64_t>(block));
    for (int64_t k = 0; k < 4 && block * 4 + k < count; ++k) {
      const int64_t i = block * 4 + k;
      const bool keep = words[static_cast<size_t>(k)] >= threshold;
      if (saved != nullptr) saved[i] = keep ? 1 : 0;
      y[i] = FromFloat<T>(ToFloat(x[i]) * ((keep ? 1.0F : 0.0F) * scale));
    }
  });
}

// The same in channels last. Draws are indexed by row-major position, as in the other layouts.
template <typename T>
void DrawAndApplyLast(const CudaQueue& queue, int64_t count, int64_t channels, int64_t space,
                      DeviceRandom random, uint32_t threshold, float scale, const T* x,
                      uint8_t* saved, T* y) {
  ForElements(queue, "DropoutForwardNHWC", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t pixel = Quotient(i, channels), c = i - pixel * channels;
    const int64_t image = Quotient(pixel, space), s = pixel - image * space;
    const int64_t place = (image * channels + c) * space + s;
    const auto words = random.Now().Block(static_cast<uint64_t>(place / 4));
    const bool keep = words[static_cast<size_t>(place % 4)] >= threshold;
    if (saved != nullptr) saved[i] = keep ? 1 : 0;
    y[i] = FromFloat<T>(ToFloat(x[i]) * ((keep ? 1.0F : 0.0F) * scale));
  });
}

template <typename T>
void ApplyMask(const CudaQueue& queue, int64_t count, float scale, const uint8_t* mask, const T* dy,
               T* dx) {
  ForElements(queue, "DropoutBackward", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    dx[i] = FromFloat<T>(ToFloat(dy[i]) * (static_cast<float>(mask[i]) * scale));
  });
}

// Computes the TEST pass, and its gradient.
template <typename T>
void Scale(const CudaQueue& queue, int64_t count, const DropoutRule& rule, const T* x, T* y) {
  if (rule.scales_in_training && x == y) return;
  const float factor = rule.scales_in_training ? 1 : 1 - rule.ratio;
  ForElements(queue, "DropoutScale", count,
              [=] CREMA_HOST_DEVICE(int64_t i) { y[i] = FromFloat<T>(factor * ToFloat(x[i])); });
}

template <bool kLast>
struct GpuDropout {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const DropoutRule rule(layer.param().dropout_param());
    const Shape& shape = args.inputs[0].shape();
    if (args.phase != TRAIN) return Scale(args.queue, shape.count(), rule, args.x(), args.y());
    const DeviceRandom random(args.queue, rule.Stream(args));
    const auto scale = static_cast<float>(rule.TrainScale());
    auto* saved = args.template Saved<uint8_t>();
    if (kLast) {
      return DrawAndApplyLast(args.queue, shape.count(), shape[1], SpaceOf(shape), random,
                              rule.Threshold(), scale, args.x(), saved, args.y());
    }
    DrawAndApply(args.queue, shape.count(), random, rule.Threshold(), scale, args.x(), saved,
                 args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const DropoutRule rule(layer.param().dropout_param());
    const int64_t count = args.output_grads[0].count();
    if (args.phase != TRAIN) return Scale(args.queue, count, rule, args.dy(), args.dx());
    ApplyMask(args.queue, count, static_cast<float>(rule.TrainScale()),
              args.template Saved<uint8_t>(), args.dy(), args.dx());
  }
};

}  // namespace

void RegisterDropoutCuda(Registry& registry) {
  registry.AddImplementation("Dropout", InChannelsLast(CudaImplementation<GpuDropout<true>>()));
  registry.AddImplementation("Dropout", CudaImplementation<GpuDropout<false>>());
}

}  // namespace crema
