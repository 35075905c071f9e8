// LRN on the GPU; see lrn.cc. Sums over windows of any number of axes are computed axis by axis:
// over channels, or over the axes within a channel.
#include <algorithm>
#include <utility>
#include <vector>

#include "crema.pb.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/group_sums.cuh"
#include "math/lrn_exponent.h"
#include "math/scratch.h"

namespace crema {
namespace {

struct Axis {
  int64_t outer, size, inner;
  int64_t half;  // half the size of the window
};

// Constants of a layer that do not depend on its shapes.
struct Rule {
  double base, factor, beta;  // scale = base + factor * sum
  LrnExponent exponent;

  CREMA_HOST_DEVICE float Power(float scale) const { return LrnPowerOf(exponent, beta, scale); }
};

struct Windows {
  // `last` means channels last, with windows over channels.
  Windows(const Layer& layer, const Shape& shape, bool last) {
    const LRNParameter& param = layer.param().lrn_param();
    const bool within = param.norm_region() == LRNParameter::WITHIN_CHANNEL;
    const int64_t size = param.local_size();
    const int first = within ? 2 : 1, end = within ? shape.axes() : 2;
    double cells = 1;
    for (int axis = first; axis < end; ++axis) {
      axes.push_back({.outer = shape.count(0, axis),
                      .size = shape[axis],
                      .inner = shape.count(axis + 1),
                      .half = std::min((size - 1) / 2, shape[axis])});
      cells *= static_cast<double>(size);
    }
    if (last) axes[0].outer = shape.count() / std::max<int64_t>(1, shape[1]);
    if (last) axes[0].inner = 1;
    rule = {.base = within ? 1.0 : double{param.k()},
            .factor = param.alpha() / cells,
            .beta = param.beta(),
            .exponent = LrnExponentOf(param.beta())};
  }

  // Returns the number of blobs that hold sums between the axes.
  int64_t Buffers() const { return std::clamp<int64_t>(std::ssize(axes) - 1, 0, 2); }

  std::vector<Axis> axes;
  Rule rule;
};

// Calls store(position, sum of value(position) over the window around it). A thread slides the
// window along several positions. Sums are f64, so that a value that enters and leaves the window
// leaves no error.
template <typename Value, typename Store>
void Slide(const CudaQueue& queue, const Axis& axis, const Value& value, const Store& store) {
  const bool moves = axis.half > 16 || (axis.half > 0 && axis.inner >= Team::kWarp);
  const int64_t length = moves ? 8 : 1;
  const int64_t pieces = (axis.size + length - 1) / length;
  ForElements(queue, "LrnWindows", axis.outer * pieces * axis.inner,
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const int64_t row = Quotient(i, axis.inner), column = i - row * axis.inner;
                const int64_t outer = Quotient(row, pieces);
                const int64_t begin = (row - outer * pieces) * length;
                const int64_t end = begin + length < axis.size ? begin + length : axis.size;
                const int64_t at = outer * axis.size * axis.inner + column;
                int64_t head = begin + axis.half + 1;  // end of the window
                if (head > axis.size) head = axis.size;
                double sum = 0;
                for (int64_t c = begin > axis.half ? begin - axis.half : 0; c < head; ++c) {
                  sum += value(at + c * axis.inner);
                }
                for (int64_t c = begin; c < end; ++c) {
                  if (c > begin && c + axis.half < axis.size) {
                    sum += value(at + (c + axis.half) * axis.inner);
                  }
                  if (c > begin && c > axis.half) {
                    sum -= value(at + (c - axis.half - 1) * axis.inner);
                  }
                  store(at + c * axis.inner, sum);
                }
              });
}

void SlideFloats(const CudaQueue& queue, const Axis& axis, const float* from, float* to) {
  Slide(
      queue, axis, [=] CREMA_HOST_DEVICE(int64_t at) { return static_cast<double>(from[at]); },
      [=] CREMA_HOST_DEVICE(int64_t at, double sum) { to[at] = static_cast<float>(sum); });
}

// Slides along all axes. `value` reads for the first axis, `store` writes for the last. `buffer`
// holds the sums between them, `spare` is used with more than two axes.
template <typename Value, typename Store>
void SlideAll(const CudaQueue& queue, const std::vector<Axis>& axes, const Value& value,
              const Store& store, float* buffer, float* spare) {
  if (axes.size() == 1) return Slide(queue, axes[0], value, store);
  Slide(queue, axes[0], value,
        [=] CREMA_HOST_DEVICE(int64_t at, double sum) { buffer[at] = static_cast<float>(sum); });
  for (size_t a = 1; a + 1 < axes.size(); ++a) {
    SlideFloats(queue, axes[a], buffer, spare);
    std::swap(buffer, spare);
  }
  Slide(
      queue, axes.back(),
      [=] CREMA_HOST_DEVICE(int64_t at) { return static_cast<double>(buffer[at]); }, store);
}

// `scale` may be null.
template <typename T>
void ForwardWindows(const CudaQueue& queue, const Windows& windows, const T* x, T* scale, T* y,
                    float* buffer, float* spare) {
  const Rule rule = windows.rule;
  SlideAll(
      queue, windows.axes,
      [=] CREMA_HOST_DEVICE(int64_t at) {
        const auto value = static_cast<double>(ToFloat(x[at]));
        return value * value;
      },
      [=] CREMA_HOST_DEVICE(int64_t at, double sum) {
        const auto s = static_cast<float>(rule.base + rule.factor * sum);
        if (scale != nullptr) scale[at] = FromFloat<T>(s);
        y[at] = FromFloat<T>(ToFloat(x[at]) * rule.Power(s));
      },
      buffer, spare);
}

// Computes ratio = dy * y / scale, and sums it over windows.
template <typename T>
void BackwardWindows(const CudaQueue& queue, const Windows& windows, int64_t count, const T* x,
                     const T* scale, const T* dy, T* dx, float* ratio, float* buffer) {
  const Rule rule = windows.rule;
  ForElements(queue, "LrnRatio", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float s = ToFloat(scale[i]);
    ratio[i] = ToFloat(dy[i]) * ToFloat(x[i]) * rule.Power(s) / s;
  });
  const auto factor = static_cast<float>(2 * rule.factor * rule.beta);
  SlideAll(
      queue, windows.axes,
      [=] CREMA_HOST_DEVICE(int64_t at) { return static_cast<double>(ratio[at]); },
      [=] CREMA_HOST_DEVICE(int64_t at, double sum) {
        const float direct = ToFloat(dy[at]) * rule.Power(ToFloat(scale[at]));
        dx[at] = FromFloat<T>(direct - factor * static_cast<float>(sum) * ToFloat(x[at]));
      },
      buffer, ratio);
}

template <bool kLast>
struct GpuLrn {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    const Windows windows(layer, x, kLast);
    ScratchCutter cutter(args.scratch);
    float* buffer = windows.Buffers() > 0 ? cutter.Take<float>(x.count()) : nullptr;
    float* spare = windows.Buffers() > 1 ? cutter.Take<float>(x.count()) : nullptr;
    ForwardWindows(args.queue, windows, args.x(), args.template Saved<T>(), args.y(), buffer,
                   spare);
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const Shape& x = args.inputs[0].shape();
    const Windows windows(layer, x, kLast);
    ScratchCutter cutter(args.scratch);
    float* ratio = cutter.Take<float>(x.count());
    float* buffer = windows.Buffers() > 0 ? cutter.Take<float>(x.count()) : nullptr;
    BackwardWindows(args.queue, windows, x.count(), args.x(), args.template Saved<T>(), args.dy(),
                    args.dx(), ratio, buffer);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const Shape& shape = query.context.inputs[0].shape;
    const auto buffers = static_cast<size_t>(Windows(query.layer, shape, kLast).Buffers());
    return buffers * ScratchBytes<float>(shape.count()) + kScratchSlack;
  }
  static size_t BackwardScratch(const OpDesc& query) {
    const Shape& shape = query.context.inputs[0].shape;
    const bool between = Windows(query.layer, shape, kLast).Buffers() > 0;
    return (between ? 2 : 1) * ScratchBytes<float>(shape.count()) + kScratchSlack;
  }
};

Support IsAcrossChannels(const OpDesc& query) {
  if (query.layer.param().lrn_param().norm_region() == LRNParameter::ACROSS_CHANNELS) return {};
  return Support::No("is for ACROSS_CHANNELS");
}

}  // namespace

void RegisterLRNCuda(Registry& registry) {
  registry.AddImplementation("LRN",
                             InChannelsLast(CudaImplementation<GpuLrn<true>>(), IsAcrossChannels));
  registry.AddImplementation("LRN", CudaImplementation<GpuLrn<false>>());
}

}  // namespace crema
