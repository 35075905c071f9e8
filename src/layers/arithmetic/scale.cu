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

bool HasBias(const Layer& layer) { return layer.param().scale_param().bias_term(); }

void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const ConstTensorView& scale = args.inputs.size() == 1 ? args.learned[0] : args.inputs[1];
  const BroadcastShape e = CoveredSize(layer, x.shape(), scale.shape(), AxesOfScale(layer));
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    const T* bias = HasBias(layer) ? Elements<T>(args.learned.back()) : nullptr;
    ScaleElements(queue, e, Elements<T>(x), Elements<T>(scale), bias, Elements<T>(args.outputs[0]));
  });
}

template <CoveredAxes (*kCovered)(const Layer&)>
size_t BackwardScratch(const OpDesc& query) {
  const std::span<const BlobSpec> inputs = query.context.inputs;
  const Shape& small = inputs.size() == 1 ? query.info.learned[0].shape : inputs[1].shape;
  return BroadcastSumScratch(
      CoveredSize(query.layer, inputs[0].shape, small, kCovered(query.layer)));
}

template <typename T>
void Backward(const CudaQueue& queue, const BroadcastShape& e, bool bias, const BackwardArgs& args,
              const ConstTensorView& scale) {
  const bool learns = args.inputs.size() == 1;
  const TensorView& dscale = learns ? args.learned_grads[0] : args.input_grads[1];
  const T* x = Elements<T>(args.inputs[0]);
  const T* dy = Elements<T>(args.output_grads[0]);
  if (!dscale.empty()) {
    if (!learns) ZeroElements(queue, dscale.count(), Elements<T>(dscale));
    AddScaleGradient(queue, e, x, dy, args.scratch, Elements<T>(dscale));
  }
  if (bias && !args.learned_grads.back().empty()) {
    AddBiasGradient(queue, e, dy, args.scratch, Elements<T>(args.learned_grads.back()));
  }
  if (!args.input_grads[0].empty()) {
    ScaleElements<T>(queue, e, dy, Elements<T>(scale), nullptr, Elements<T>(args.input_grads[0]));
  }
}

void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& x = args.inputs[0].shape();
  const ConstTensorView& scale = args.inputs.size() == 1 ? args.learned[0] : args.inputs[1];
  const BroadcastShape e = CoveredSize(layer, x, scale.shape(), AxesOfScale(layer));
  DispatchCudaFloat(args.inputs[0].dtype(),
                    [&]<typename T>(T) { Backward<T>(queue, e, HasBias(layer), args, scale); });
}

// Returns the sizes in channels last, for one parameter per channel.

BroadcastShape LastSizes(const Shape& x) { return {x[0] * SpaceOf(x), x[1], 1}; }

Support CoversChannels(const OpDesc& query) {
  const CoveredAxes covered = AxesOfScale(query.layer);
  const Shape& x = query.context.inputs[0].shape;
  const bool channels = covered.num_axes == 1 && x.CanonicalAxis(covered.axis) == 1;
  if (query.context.inputs.size() == 1 && channels) return {};
  return Support::No("is for one parameter a channel");
}

void ForwardLast(const Layer& layer, const ForwardArgs& args) {
  const ConstTensorView& x = args.inputs[0];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    const T* bias = HasBias(layer) ? Elements<T>(args.learned[1]) : nullptr;
    ScaleElements(BoundQueue(args.context), LastSizes(x.shape()), Elements<T>(x),
                  Elements<T>(args.learned[0]), bias, Elements<T>(args.outputs[0]));
  });
}

// Adds both gradients in one pass over the elements. Null means not wanted.
template <typename T>
void AddGradientsLast(const CudaQueue& queue, const GroupLayout& channels, const T* x, const T* dy,
                      SumPair* scratch, T* dscale, T* dbias) {
  SumGroups(
      queue, channels,
      [=] CREMA_HOST_DEVICE(int64_t, int64_t at) {
        const auto d = static_cast<double>(ToFloat(dy[at]));
        return SumPair{d * static_cast<double>(ToFloat(x[at])), d};
      },
      scratch,
      [=] CREMA_HOST_DEVICE(int64_t c, SumPair sums) {
        const auto add = [c](T* to, double sum) {
          if (to != nullptr) to[c] = FromFloat<T>(ToFloat(to[c]) + static_cast<float>(sum));
        };
        add(dscale, sums.first);
        add(dbias, sums.second);
      });
}

size_t BackwardScratchLast(const OpDesc& query) {
  const GroupLayout channels = ChannelsLastGroups(query.context.inputs[0].shape);
  return ScratchBytes<SumPair>(GroupSumsScratch(channels)) + kScratchSlack;
}

void BackwardLast(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const Shape& shape = args.inputs[0].shape();
  const GroupLayout channels = ChannelsLastGroups(shape);
  const TensorView dscale = args.learned_grads[0];
  const TensorView dbias = HasBias(layer) ? args.learned_grads[1] : TensorView();
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    const T* dy = Elements<T>(args.output_grads[0]);
    if (!dscale.empty() || !dbias.empty()) {
      auto* scratch = ScratchCutter(args.scratch).Take<SumPair>(GroupSumsScratch(channels));
      AddGradientsLast(queue, channels, Elements<T>(args.inputs[0]), dy, scratch,
                       Elements<T>(dscale), Elements<T>(dbias));
    }
    if (!args.input_grads[0].empty()) {
      ScaleElements<T>(queue, LastSizes(shape), dy, Elements<T>(args.learned[0]), nullptr,
                       Elements<T>(args.input_grads[0]));
    }
  });
}

ImplementationPtr ChannelsLastImplementation() {
  return InChannelsLast(
      MakeCudaImplementation(ForwardLast, BackwardLast, {.backward_scratch = BackwardScratchLast}),
      CoversChannels);
}

void ForwardBias(const Layer& layer, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[0];
  const ConstTensorView& bias = args.inputs.size() > 1 ? args.inputs[1] : args.learned[0];
  const BroadcastShape e = CoveredSize(layer, x.shape(), bias.shape(), AxesOfBias(layer));
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    ScaleElements<T>(queue, e, Elements<T>(x), nullptr, Elements<T>(bias),
                     Elements<T>(args.outputs[0]));
  });
}

void BackwardBias(const Layer& layer, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const bool learns = args.inputs.size() == 1;
  const TensorView& dbias = learns ? args.learned_grads[0] : args.input_grads[1];
  const ConstTensorView& dy = args.output_grads[0];
  DispatchCudaFloat(dy.dtype(), [&]<typename T>(T) {
    if (!dbias.empty()) {
      if (!learns) ZeroElements(queue, dbias.count(), Elements<T>(dbias));
      AddBiasGradient(queue, CoveredSize(layer, dy.shape(), dbias.shape(), AxesOfBias(layer)),
                      Elements<T>(dy), args.scratch, Elements<T>(dbias));
    }
    // Last, since dx may share memory with dy.
    if (args.input_grads[0].empty()) return;
    CopyElements(queue, dy.count(), Elements<T>(dy), Elements<T>(args.input_grads[0]));
  });
}

// y = a * x + z, with one element of `a` for `plane` elements each. Null `z` means 0.
template <typename T>
void ScalePlanes(const CudaQueue& queue, int64_t count, int64_t plane, const T* a, const T* x,
                 const T* z, T* y) {
  ForElements(queue, "Axpy", count, [=] CREMA_HOST_DEVICE(int64_t i) {
    const float shift = z == nullptr ? 0 : ToFloat(z[i]);
    y[i] = FromFloat<T>(ToFloat(a[i / plane]) * ToFloat(x[i]) + shift);
  });
}

BroadcastShape AxpySizes(const Shape& x) { return {1, x.count(0, 2), x.count(2)}; }

void ForwardAxpy(const Layer&, const ForwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const ConstTensorView& x = args.inputs[1];
  DispatchCudaFloat(x.dtype(), [&]<typename T>(T) {
    ScalePlanes(queue, x.count(), x.shape().count(2), Elements<T>(args.inputs[0]), Elements<T>(x),
                Elements<T>(args.inputs[2]), Elements<T>(args.outputs[0]));
  });
}

template <typename T>
void AddAxpyGradients(const CudaQueue& queue, const BackwardArgs& args) {
  const BroadcastShape e = AxpySizes(args.inputs[1].shape());
  const T* dy = Elements<T>(args.output_grads[0]);
  if (const TensorView& da = args.input_grads[0]; !da.empty()) {
    ZeroElements(queue, da.count(), Elements<T>(da));
    AddScaleGradient(queue, e, Elements<T>(args.inputs[1]), dy, args.scratch, Elements<T>(da));
  }
  if (const TensorView& dx = args.input_grads[1]; !dx.empty()) {
    ScalePlanes<T>(queue, dx.count(), e.inner, Elements<T>(args.inputs[0]), dy, nullptr,
                   Elements<T>(dx));
  }
  if (const TensorView& dz = args.input_grads[2]; !dz.empty()) {
    CopyElements(queue, dz.count(), dy, Elements<T>(dz));
  }
}

void BackwardAxpy(const Layer&, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  DispatchCudaFloat(args.output_grads[0].dtype(),
                    [&]<typename T>(T) { AddAxpyGradients<T>(queue, args); });
}

size_t AxpyScratch(const OpDesc& query) {
  return BroadcastSumScratch(AxpySizes(query.context.inputs[1].shape));
}

}  // namespace

void RegisterScaleCuda(Registry& registry) {
  registry.AddImplementation("Scale", ChannelsLastImplementation());
  registry.AddImplementation(
      "Scale", MakeCudaImplementation(ForwardOnGpu, BackwardOnGpu,
                                      {.backward_scratch = BackwardScratch<AxesOfScale>}));
}

void RegisterBiasCuda(Registry& registry) {
  registry.AddImplementation(
      "Bias", MakeCudaImplementation(ForwardBias, BackwardBias,
                                     {.backward_scratch = BackwardScratch<AxesOfBias>}));
}

void RegisterAxpyCuda(Registry& registry) {
  registry.AddImplementation(
      "Axpy", MakeCudaImplementation(ForwardAxpy, BackwardAxpy, {.backward_scratch = AxpyScratch}));
}

}  // namespace crema
