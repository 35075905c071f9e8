// BatchNorm and BN on the GPU; see batch_norm_base.cc.
#include "layers/channels_last_implementation.h"
#include "layers/gpu_implementation.h"
#include "layers/normalization/batch_norm_cuda.h"
#include "layers/normalization/statistics_measure.cuh"

namespace crema {
namespace {

enum Saved : size_t { kInverse, kNormal };

template <bool kLast>
NormLayout LayoutOf(const BatchNormBase& norm, const Shape& input) {
  if (!kLast) return norm.Layout(input);
  const GroupLayout channels = ChannelsLastGroups(input);
  return {channels, channels};
}

template <bool kLast>
size_t ForwardScratch(const OpDesc& query) {
  const NormLayout layout = LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape);
  return GoesAlone(query) ? NormForwardScratch(layout) : FusedNormForwardScratch(layout.groups);
}
template <bool kLast>
size_t BackwardScratch(const OpDesc& query) {
  const NormLayout layout = LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape);
  return GoesAlone(query) ? NormBackwardScratch(layout) : FusedNormBackwardScratch(layout.groups);
}

// Computes the coefficients of a channel, from statistics of the batch or running ones. `saved` may
// be null.
struct Coefficients {
  CREMA_HOST_DEVICE void Set(int64_t c, double mean, double variance) const {
    const double factor = 1 / std::sqrt(variance + eps);
    center[c] = static_cast<float>(mean);
    inverse[c] = static_cast<float>(factor);
    if (saved != nullptr) saved[c] = factor;
  }
  double eps;
  float *center, *inverse;
  double* saved;
};

void Forward(const BatchNormBase& norm, const NormLayout& layout, const ForwardArgs& args) {
  if (args.implementation_state != nullptr) return ForwardFusedNorm(norm, layout.groups, args);
  const BatchNormRule& rule = norm.rule();
  ScratchCutter cutter(args.scratch);
  auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(layout.groups));
  float* center = cutter.Take<float>(layout.groups.Groups());
  float* inverse = cutter.Take<float>(layout.groups.Groups());
  const Coefficients to{rule.eps, center, inverse, Elements<double>(At(args.saved, kInverse))};
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    if (HasStatisticsInF32(rule, args.learned)) {
      Measure<T, float>(norm, layout.groups, args, nullptr, scratch, to);
    } else {
      Measure<T, T>(norm, layout.groups, args, nullptr, scratch, to);
    }
    NormForward<T> pass;
    pass.x = Elements<T>(args.inputs[0]);
    pass.y = Elements<T>(args.outputs[0]);
    pass.center = center;
    pass.inverse = inverse;
    pass.scale = BlobOf<T>(args.learned, rule.scale);
    pass.shift = BlobOf<T>(args.learned, rule.shift);
    pass.relu = rule.relu.on;
    pass.slope = rule.relu.slope;
    if (norm.KeepsNormal()) pass.normal = Elements<T>(At(args.saved, kNormal));
    NormalizeForward(BoundQueue(args.context), layout, pass);
  });
}

void Backward(const BatchNormBase& norm, const NormLayout& layout, const BackwardArgs& args) {
  if (args.implementation_state != nullptr) return BackwardFusedNorm(norm, layout.groups, args);
  const BatchNormRule& rule = norm.rule();
  DispatchCudaFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
    NormBackward<T> pass;
    pass.dy = Elements<T>(args.output_grads[0]);
    pass.dx = Elements<T>(args.input_grads[0]);
    if (rule.relu.on) pass.y = Elements<T>(args.outputs[0]);
    pass.slope = rule.relu.slope;
    pass.inverse = Elements<double>(args.saved[kInverse]);
    pass.spread = pass.inverse;
    pass.measured = norm.UsesBatch(args.phase);
    pass.divisor = static_cast<double>(std::max<int64_t>(1, layout.groups.GroupSize()));
    pass.scale = BlobOf<T>(args.learned, rule.scale);
    pass.dscale = BlobOf<T>(args.learned_grads, rule.scale);
    pass.dshift = BlobOf<T>(args.learned_grads, rule.shift);
    if (norm.KeepsNormal()) {
      pass.normal = Elements<T>(args.saved[kNormal]);
    } else if (pass.measured) {
      pass.normal = Elements<T>(args.outputs[0]);
    }
    NormalizeBackward(BoundQueue(args.context), layout, pass, args.scratch);
  });
}

template <bool kLast>
void ForwardOnGpu(const Layer& layer, const ForwardArgs& args) {
  Forward(NormOf(layer), LayoutOf<kLast>(NormOf(layer), args.inputs[0].shape()), args);
}
template <bool kLast>
void BackwardOnGpu(const Layer& layer, const BackwardArgs& args) {
  Backward(NormOf(layer), LayoutOf<kLast>(NormOf(layer), args.output_grads[0].shape()), args);
}

template <bool kLast>
ImplementationPtr MakeImplementation() {
  return MakeSimpleImplementation<CudaNormImplementation>(
      {.name = "cuda",
       .device = DeviceType::kCuda,
       .norm_role = kLast ? NormRole::kNorm : NormRole::kNone},
      {.supports = SupportsCudaFloats,
       .forward = ForwardOnGpu<kLast>,
       .backward = BackwardOnGpu<kLast>,
       .forward_scratch = ForwardScratch<kLast>,
       .backward_scratch = BackwardScratch<kLast>});
}

Support HasChannelsOnAxis1(const OpDesc& query) {
  if (NormOf(query.layer).rule().axis == 1) return {};
  return Support::No("is for channels on axis 1");
}

}  // namespace

void RegisterBatchNormCuda(Registry& registry) {
  for (const char* type : {"BN", "BatchNorm"}) {
    registry.AddImplementation(type,
                               InChannelsLast(MakeImplementation<true>(), HasChannelsOnAxis1));
    registry.AddImplementation(type, MakeImplementation<false>());
  }
}

}  // namespace crema
