// Scale, Bias and Axpy on the GPU; see scale.cc, bias.cc and axpy.cc.
#include "crema.pb.h"
#include "layers/arithmetic/broadcast_axes.h"
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "math/cuda/broadcast.cuh"
#include "math/cuda/copy.cuh"
#include "math/cuda/group_sums.cuh"
#include "math/scratch.h"

namespace crema {
namespace {

// y = x * scale + bias. Null means scale 1 or bias 0.
template <typename T>
void ScaleElements(const CudaQueue& queue, const BroadcastShape& e, const T* x, const T* scale,
                   const T* bias, T* y) {
  const int64_t middle = e.middle, inner = e.inner;
  ForElements(queue, "Scale", e.count(), [=] CREMA_HOST_DEVICE(int64_t i) {
    const int64_t row = Quotient(i, inner), m = row - Quotient(row, middle) * middle;
    const float factor = scale == nullptr ? 1 : ToFloat(scale[m]);
    const float shift = bias == nullptr ? 0 : ToFloat(bias[m]);
    y[i] = FromFloat<T>(ToFloat(x[i]) * factor + shift);
  });
}

template <typename T>
void AddScaleGradient(const CudaQueue& queue, const BroadcastShape& e, const T* x, const T* dy,
                      std::span<std::byte> scratch, T* dscale) {
  AddBroadcastSums(
      queue, e, [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(dy[i]) * ToFloat(x[i]); },
      scratch, dscale);
}

template <typename T>
void AddBiasGradient(const CudaQueue& queue, const BroadcastShape& e, const T* dy,
                     std::span<std::byte> scratch, T* dbias) {
  AddBroadcastSums(
      queue, e, [=] CREMA_HOST_DEVICE(int64_t i) { return ToFloat(dy[i]); }, scratch, dbias);
}

// Adds both gradients in one pass over the elements in channels last. Null means not needed.
template <typename T>
void AddGradientsLast(const GpuBackward<T>& args, T* dscale, T* dbias) {
  if (dscale == nullptr && dbias == nullptr) return;
  const GroupLayout channels = ChannelsLastGroups(args.inputs[0].shape());
  const T *x = args.x(), *dy = args.dy();
  SumGroups(
      args.queue, channels,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) {
        const auto d = static_cast<double>(ToFloat(dy[at]));
        return SumPair{d * static_cast<double>(ToFloat(x[at])), d};
      },
      ScratchCutter(args.scratch).Take<SumPair>(GroupSumsScratch(channels)),
      [=] CREMA_HOST_DEVICE(int64_t c, SumPair sums) {
        const auto add = [c](T* to, double sum) {
          if (to != nullptr) to[c] = FromFloat<T>(ToFloat(to[c]) + static_cast<float>(sum));
        };
        add(dscale, sums.first);
        add(dbias, sums.second);
      });
}

// The blob that covers axes of input 0 is learned, or input 1.
template <typename T, template <typename> typename Args>
const T* Small(const Args<T>& args) {
  return args.inputs.size() == 1 ? args.w() : args.x(1);
}
// Returns where to add its gradient; null if it is not needed.
template <typename T>
T* SmallGradient(const GpuBackward<T>& args) {
  if (args.inputs.size() == 1) return args.dw();
  if (args.dx(1) != nullptr) ZeroElements(args.queue, args.input_grads[1].count(), args.dx(1));
  return args.dx(1);
}
template <typename Args>
BroadcastShape SizesOf(const Layer& layer, const Args& args, const CoveredAxes& covered) {
  const Shape& small =
      args.inputs.size() == 1 ? args.parameters[0].shape() : args.inputs[1].shape();
  return CoveredSize(layer, args.inputs[0].shape(), small, covered);
}
size_t SumScratch(const OpDesc& query, const CoveredAxes& covered) {
  const std::span<const BlobSpec> inputs = query.context.inputs;
  const Shape& small = inputs.size() == 1 ? query.info.parameters[0].shape : inputs[1].shape;
  return BroadcastSumScratch(CoveredSize(query.layer, inputs[0].shape, small, covered));
}

// `kLast` means channels last, with one parameter per channel.
template <bool kLast>
struct GpuScale {
  template <typename Args>
  static BroadcastShape Sizes(const Layer& layer, const Args& args) {
    const Shape& x = args.inputs[0].shape();
    if (kLast) return {x[0] * SpaceOf(x), x[1], 1};
    return SizesOf(layer, args, AxesOfScale(layer));
  }
  static bool HasBias(const Layer& layer) { return layer.param().scale_param().bias_term(); }

  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const T* bias = HasBias(layer) ? args.w(args.parameters.size() - 1) : nullptr;
    ScaleElements(args.queue, Sizes(layer, args), args.x(), Small(args), bias, args.y());
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const BroadcastShape e = Sizes(layer, args);
    T* dscale = SmallGradient(args);
    T* dbias = HasBias(layer) ? args.dw(args.parameter_grads.size() - 1) : nullptr;
    if (kLast) {
      AddGradientsLast(args, dscale, dbias);
    } else {
      if (dscale != nullptr) {
        AddScaleGradient(args.queue, e, args.x(), args.dy(), args.scratch, dscale);
      }
      if (dbias != nullptr) AddBiasGradient(args.queue, e, args.dy(), args.scratch, dbias);
    }
    if (args.dx() == nullptr) return;
    ScaleElements<T>(args.queue, e, args.dy(), Small(args), nullptr, args.dx());
  }

  static size_t BackwardScratch(const OpDesc& query) {
    if (!kLast) return SumScratch(query, AxesOfScale(query.layer));
    const GroupLayout channels = ChannelsLastGroups(query.context.inputs[0].shape);
    return ScratchBytes<SumPair>(GroupSumsScratch(channels)) + kScratchSlack;
  }
};

Support CoversChannels(const OpDesc& query) {
  const CoveredAxes covered = AxesOfScale(query.layer);
  const Shape& x = query.context.inputs[0].shape;
  const bool channels = covered.num_axes == 1 && x.CanonicalAxis(covered.axis) == 1;
  if (query.context.inputs.size() == 1 && channels) return {};
  return Support::No("is for one parameter a channel");
}

struct GpuBias {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    ScaleElements<T>(args.queue, SizesOf(layer, args, AxesOfBias(layer)), args.x(), nullptr,
                     Small(args), args.y());
  }
  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    if (T* dbias = SmallGradient(args)) {
      AddBiasGradient(args.queue, SizesOf(layer, args, AxesOfBias(layer)), args.dy(), args.scratch,
                      dbias);
    }
    // Last, since dx may share memory with dy.
    if (args.dx() == nullptr) return;
    CopyElements(args.queue, args.output_grads[0].count(), args.dy(), args.dx());
  }
  static size_t BackwardScratch(const OpDesc& query) {
    return SumScratch(query, AxesOfBias(query.layer));
  }
};

// y = a * x + z, with one element of `a` for `plane` elements each. Null `z` means 0.
template <typename T>
void ScalePlanes(const CudaQueue& queue, int64_t count, int64_t plane, const T* a, const T* x,
                 const T* z, T* y) {
  ForElements(queue, "Axpy", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float shift = z == nullptr ? 0 : ToFloat(z[i]);
    y[i] = FromFloat<T>(ToFloat(a[i / plane]) * ToFloat(x[i]) + shift);
  });
}

struct GpuAxpy {
  static BroadcastShape Sizes(const Shape& x) { return {1, x.count(0, 2), x.count(2)}; }

  template <typename T>
  static void Forward(const Layer&, const GpuForward<T>& args) {
    const Shape& x = args.inputs[1].shape();
    ScalePlanes(args.queue, x.count(), x.count(2), args.x(0), args.x(1), args.x(2), args.y());
  }

  template <typename T>
  static void Backward(const Layer&, const GpuBackward<T>& args) {
    const BroadcastShape e = Sizes(args.inputs[1].shape());
    if (T* da = args.dx(0)) {
      ZeroElements(args.queue, args.input_grads[0].count(), da);
      AddScaleGradient(args.queue, e, args.x(1), args.dy(), args.scratch, da);
    }
    if (T* dx = args.dx(1)) {
      ScalePlanes<T>(args.queue, e.count(), e.inner, args.x(0), args.dy(), nullptr, dx);
    }
    if (T* dz = args.dx(2)) CopyElements(args.queue, e.count(), args.dy(), dz);
  }

  static size_t BackwardScratch(const OpDesc& query) {
    return BroadcastSumScratch(Sizes(query.context.inputs[1].shape));
  }
};

}  // namespace

void RegisterScaleCuda(Registry& registry) {
  registry.AddImplementation("Scale",
                             InChannelsLast(CudaImplementation<GpuScale<true>>(), CoversChannels));
  registry.AddImplementation("Scale", CudaImplementation<GpuScale<false>>());
}

void RegisterBiasCuda(Registry& registry) {
  registry.AddImplementation("Bias", CudaImplementation<GpuBias>());
}

void RegisterAxpyCuda(Registry& registry) {
  registry.AddImplementation("Axpy", CudaImplementation<GpuAxpy>());
}

}  // namespace crema
