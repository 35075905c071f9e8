// BatchNorm with the Scale, sum and ReLU after it fused, on the GPU. Formulas and saved values are
// those of batch_norm_fused.cc. With a sum, y = relu(scale * n + bias + z) and dz = d, and the mask
// of the ReLU follows from y.
#include "layers/normalization/batch_norm_cuda.h"
#include "layers/normalization/norm_epilogue.h"
#include "layers/normalization/statistics_measure.cuh"
#include "math/relu_rule.h"

namespace crema {
namespace {

struct CudaEpilogue final : ImplementationState {
  explicit CudaEpilogue(const OpDesc& query) : epilogue(query.fused) {}
  const NormEpilogue epilogue;
};

const NormEpilogue& EpilogueOf(ImplementationState* state) {
  return static_cast<const CudaEpilogue*>(state)->epilogue;
}

// Coefficients of y = relu((x - center) * factor + shift + z).
struct ChannelAffine {
  CREMA_HOST_DEVICE float Of(float x) const { return (x - center) * factor + shift; }
  // Returns (x - mean) / deviation.
  CREMA_HOST_DEVICE float Normal(float x) const { return (x - center) * inverse; }
  float center, inverse, factor, shift;
};

// The same per channel.
struct Affine {
  CREMA_HOST_DEVICE ChannelAffine Of(int64_t c) const {
    return {center[c], inverse[c], factor[c], shift[c]};
  }
  float *center, *inverse, *factor, *shift;
};

Affine TakeAffine(int64_t channels, ScratchCutter* cutter) {
  float* center = cutter->Take<float>(channels);
  float* inverse = cutter->Take<float>(channels);
  float* factor = cutter->Take<float>(channels);
  return {center, inverse, factor, cutter->Take<float>(channels)};
}

// Computes the Affine of a channel from its statistics. Parameters are of type L; null means scale
// 1 and bias 0. `saved` gets means, then inverses, and may be null.
template <typename L>
struct AffineCoefficients {
  CREMA_HOST_DEVICE void Set(int64_t c, double mean, double variance) const {
    const double inverse = 1 / std::sqrt(variance + eps);
    SetInverse(c, mean, inverse);
    if (saved == nullptr) return;
    saved[c] = mean;
    saved[channels + c] = inverse;
  }
  CREMA_HOST_DEVICE void SetInverse(int64_t c, double mean, double inverse) const {
    const double by = scale == nullptr ? 1 : static_cast<double>(ToFloat(scale[c]));
    to.center[c] = static_cast<float>(mean);
    to.inverse[c] = static_cast<float>(inverse);
    to.factor[c] = static_cast<float>(inverse * by);
    to.shift[c] = bias == nullptr ? 0 : ToFloat(bias[c]);
  }
  double eps;
  int64_t channels;
  const L *scale, *bias;
  Affine to;
  double* saved;
};

// Parameters of fused layers follow those of the norm.
template <typename L>
AffineCoefficients<L> CoefficientsOf(const BatchNormBase& norm, const NormEpilogue& epilogue,
                                     std::span<const ConstTensorView> parameters,
                                     const Affine& to) {
  const int own = static_cast<int>(norm.rule().blobs.size());
  return {.eps = norm.rule().eps,
          .channels = 0,
          .scale = epilogue.scale ? BlobOf<L>(parameters, own) : nullptr,
          .bias = epilogue.bias ? BlobOf<L>(parameters, own + 1) : nullptr,
          .to = to,
          .saved = nullptr};
}

// Computes y. Null z means 0.
template <typename T>
struct Normalization {
  struct InChannel {
    CREMA_HOST_DEVICE float Read(int64_t i) const {
      float value = affine.Of(ToFloat(all.x[i]));
      if (all.z != nullptr) value += ToFloat(all.z[i]);
      if (all.relu) ApplyRelu(all.slope, &value);
      return value;
    }
    CREMA_HOST_DEVICE void Write(int64_t i, float value) const { all.y[i] = FromFloat<T>(value); }
    const Normalization& all;
    ChannelAffine affine;
  };
  CREMA_HOST_DEVICE InChannel OfGroup(int64_t c) const { return {*this, affine.Of(c)}; }

  const T *x, *z;
  Affine affine;
  bool relu;
  float slope;
  T* y;
};

template <typename T, typename L>
void ForwardOf(const BatchNormBase& norm, const GroupLayout& groups, const ForwardArgs& args) {
  const NormEpilogue& epilogue = EpilogueOf(args.implementation_state);
  ScratchCutter cutter(args.scratch);
  auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(groups));
  const Affine affine = TakeAffine(groups.Groups(), &cutter);
  AffineCoefficients<L> to = CoefficientsOf<L>(norm, epilogue, args.parameters, affine);
  to.channels = groups.Groups();
  to.saved = Elements<double>(At(args.saved, 0));
  Measure<T, L>(norm, groups, args, scratch, to);
  ForGroupElements(BoundQueue(args.context), "NormalizeFused", groups,
                   Normalization<T>{.x = Elements<T>(args.inputs[0]),
                                    .z = epilogue.sum ? Elements<T>(args.inputs[1]) : nullptr,
                                    .affine = affine,
                                    .relu = epilogue.relu.on,
                                    .slope = epilogue.relu.slope,
                                    .y = Elements<T>(args.outputs[0])});
}

// Returns dy masked by the ReLU. If y is null, the mask follows from x.
template <typename T>
struct OpenGradient {
  CREMA_HOST_DEVICE float Of(int64_t i, const ChannelAffine& channel) const {
    float d = ToFloat(dy[i]);
    if (!relu) return d;
    const float value = y != nullptr ? ToFloat(y[i]) : channel.Of(ToFloat(x[i]));
    MaskByRelu(slope, value, &d);
    return d;
  }
  const T *x, *dy, *y;
  Affine affine;
  bool relu;
  float slope;
};

// Gives d and d * normal to be summed, and writes d to dz unless that is null. dz may be dy.
template <typename T>
struct GradientTerm {
  struct Pair {
    float d, normal;
  };
  struct InChannel {
    CREMA_HOST_DEVICE Pair Read(int64_t, int64_t at) const {
      return {all.open.Of(at, affine), affine.Normal(ToFloat(all.open.x[at]))};
    }
    CREMA_HOST_DEVICE SumPair Take(int64_t, int64_t at, const Pair& read) const {
      if (all.dz != nullptr) all.dz[at] = FromFloat<T>(read.d);
      const double d = static_cast<double>(read.d);
      return {d, d * static_cast<double>(read.normal)};
    }
    const GradientTerm& all;
    ChannelAffine affine;
  };
  CREMA_HOST_DEVICE InChannel OfGroup(int64_t c) const { return {*this, open.affine.Of(c)}; }
  OpenGradient<T> open;
  T* dz;
};

// dx = factor * (d - offset) - slope * normal, per channel: no term grows beyond the gradient.
struct ToInput {
  float *offset, *slope;
};

// Adds the sums of a term to the gradients of bias and scale, which are null if not needed, and
// computes ToInput.
template <typename L>
struct FinishGradients {
  CREMA_HOST_DEVICE static void Add(L* sum, double value) {
    *sum = FromFloat<L>(ToFloat(*sum) + static_cast<float>(value));
  }
  CREMA_HOST_DEVICE void operator()(int64_t c, SumPair sums) const {
    if (dscale != nullptr) Add(dscale + c, sums.second);
    if (dbias != nullptr) Add(dbias + c, sums.first);
    to.offset[c] = static_cast<float>(sums.first / size);
    to.slope[c] = static_cast<float>(factor[c] * sums.second / size);
  }
  L *dscale, *dbias;
  const float* factor;
  ToInput to;
  double size;
};

template <typename T>
struct InputGradient {
  struct InChannel {
    CREMA_HOST_DEVICE float Read(int64_t i) const {
      return affine.factor * (all.open.Of(i, affine) - offset) -
             slope * affine.Normal(ToFloat(all.open.x[i]));
    }
    CREMA_HOST_DEVICE void Write(int64_t i, float value) const { all.dx[i] = FromFloat<T>(value); }
    const InputGradient& all;
    ChannelAffine affine;
    float offset, slope;
  };
  CREMA_HOST_DEVICE InChannel OfGroup(int64_t c) const {
    return {*this, open.affine.Of(c), by.offset[c], by.slope[c]};
  }

  OpenGradient<T> open;
  ToInput by;
  T* dx;
};

template <typename T, typename L>
void BackwardOf(const BatchNormBase& norm, const GroupLayout& groups, const BackwardArgs& args) {
  const CudaQueue& queue = BoundQueue(args.context);
  const NormEpilogue& epilogue = EpilogueOf(args.implementation_state);
  const int64_t channels = groups.Groups();
  ScratchCutter cutter(args.scratch);
  auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(groups));
  const Affine affine = TakeAffine(channels, &cutter);
  const ToInput by{cutter.Take<float>(channels), cutter.Take<float>(channels)};
  const double* means = Elements<double>(args.saved[0]);
  const double* inverses = means + channels;
  const AffineCoefficients<L> to = CoefficientsOf<L>(norm, epilogue, args.parameters, affine);
  ForElements(queue, "NormCoefficients", channels,
              [=] CREMA_HOST_DEVICE(int64_t c) { to.SetInverse(c, means[c], inverses[c]); });
  OpenGradient<T> open{.x = Elements<T>(args.inputs[0]),
                       .dy = Elements<T>(args.output_grads[0]),
                       .y = epilogue.sum ? Elements<T>(args.outputs[0]) : nullptr,
                       .affine = affine,
                       .relu = epilogue.relu.on,
                       .slope = epilogue.relu.slope};
  T* dz = epilogue.sum ? Elements<T>(args.input_grads[1]) : nullptr;
  const int own = static_cast<int>(norm.rule().blobs.size());
  const FinishGradients<L> finish{
      .dscale = epilogue.scale ? BlobOf<L>(args.parameter_grads, own) : nullptr,
      .dbias = epilogue.bias ? BlobOf<L>(args.parameter_grads, own + 1) : nullptr,
      .factor = affine.factor,
      .to = by,
      .size = static_cast<double>(std::max<int64_t>(1, groups.GroupSize()))};
  SumGroups(queue, groups, GradientTerm<T>{open, dz}, scratch, finish);
  T* dx = Elements<T>(args.input_grads[0]);
  if (dx == nullptr) return;
  if (dz != nullptr) {  // dz holds d
    open.dy = dz;
    open.relu = false;
  }
  ForGroupElements(queue, "NormalizeFusedBackward", groups, InputGradient<T>{open, by, dx});
}

bool CanFuseOnGpu(const OpDesc& query) {
  const BatchNormBase& norm = NormOf(query.layer);
  return norm.rule().axis == 1 && query.context.inputs[0].shape.axes() > 1 && norm.CanFuse(query);
}

}  // namespace

void ForwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                      const ForwardArgs& args) {
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    if (HasStatisticsInF32(norm.rule(), args.parameters))
      return ForwardOf<T, float>(norm, groups, args);
    ForwardOf<T, T>(norm, groups, args);
  });
}

void BackwardFusedNorm(const BatchNormBase& norm, const GroupLayout& groups,
                       const BackwardArgs& args) {
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    if (HasStatisticsInF32(norm.rule(), args.parameters))
      return BackwardOf<T, float>(norm, groups, args);
    BackwardOf<T, T>(norm, groups, args);
  });
}

bool CudaNormImplementation::CanFuse(const OpDesc& op) const { return CanFuseOnGpu(op); }

LayerInfo CudaNormImplementation::Info(const OpDesc& op) const {
  return CanFuseOnGpu(op) ? BatchNormBase::FusedInfo(op) : op.info;
}

std::unique_ptr<ImplementationState> CudaNormImplementation::MakeState(const OpDesc& op) const {
  if (GoesAlone(op)) return nullptr;
  return std::make_unique<CudaEpilogue>(op);
}

size_t FusedNormForwardScratch(const GroupLayout& groups) {
  return ScratchBytes<SumPair>(GroupSumsScratch(groups)) +
         4 * ScratchBytes<float>(groups.Groups()) + kScratchSlack;
}
size_t FusedNormBackwardScratch(const GroupLayout& groups) {
  return ScratchBytes<SumPair>(GroupSumsScratch(groups)) +
         6 * ScratchBytes<float>(groups.Groups()) + kScratchSlack;
}

}  // namespace crema
