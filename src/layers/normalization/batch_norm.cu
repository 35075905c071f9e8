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

template <bool kLast>
struct GpuBatchNorm {
  template <typename T>
  static void Forward(const Layer& layer, const GpuForward<T>& args) {
    const BatchNormBase& norm = NormOf(layer);
    const NormLayout layout = LayoutOf<kLast>(norm, args.inputs[0].shape());
    if (args.implementation_state != nullptr) return ForwardFusedNorm(norm, layout.groups, args);
    const BatchNormRule& rule = norm.rule();
    ScratchCutter cutter(args.scratch);
    auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(layout.groups));
    float* center = cutter.Take<float>(layout.groups.Groups());
    float* inverse = cutter.Take<float>(layout.groups.Groups());
    const Coefficients to{rule.eps, center, inverse, args.template Saved<double>(kInverse)};
    if (HasStatisticsInF32(rule, args.parameters)) {
      Measure<T, float>(norm, layout.groups, args, scratch, to);
    } else {
      Measure<T, T>(norm, layout.groups, args, scratch, to);
    }
    NormForward<T> pass;
    pass.x = args.x();
    pass.y = args.y();
    pass.center = center;
    pass.inverse = inverse;
    pass.scale = BlobOf<T>(args.parameters, rule.scale);
    pass.shift = BlobOf<T>(args.parameters, rule.shift);
    pass.relu = rule.relu.on;
    pass.slope = rule.relu.slope;
    if (norm.KeepsNormal()) pass.normal = args.template Saved<T>(kNormal);
    NormalizeForward(args.queue, layout, pass);
  }

  template <typename T>
  static void Backward(const Layer& layer, const GpuBackward<T>& args) {
    const BatchNormBase& norm = NormOf(layer);
    const NormLayout layout = LayoutOf<kLast>(norm, args.output_grads[0].shape());
    if (args.implementation_state != nullptr) return BackwardFusedNorm(norm, layout.groups, args);
    const BatchNormRule& rule = norm.rule();
    NormBackward<T> pass;
    pass.dy = args.dy();
    pass.dx = args.dx();
    if (rule.relu.on) pass.y = args.y();
    pass.slope = rule.relu.slope;
    pass.inverse = args.template Saved<double>(kInverse);
    pass.spread = pass.inverse;
    pass.measured = norm.UsesBatch(args.phase);
    pass.divisor = static_cast<double>(std::max<int64_t>(1, layout.groups.GroupSize()));
    pass.scale = BlobOf<T>(args.parameters, rule.scale);
    pass.dscale = BlobOf<T>(args.parameter_grads, rule.scale);
    pass.dshift = BlobOf<T>(args.parameter_grads, rule.shift);
    if (norm.KeepsNormal()) {
      pass.normal = args.template Saved<T>(kNormal);
    } else if (pass.measured) {
      pass.normal = args.y();
    }
    NormalizeBackward(args.queue, layout, pass, args.scratch);
  }

  static size_t ForwardScratch(const OpDesc& query) {
    const NormLayout layout = LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape);
    return GoesAlone(query) ? NormForwardScratch(layout) : FusedNormForwardScratch(layout.groups);
  }
  static size_t BackwardScratch(const OpDesc& query) {
    const NormLayout layout = LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape);
    return GoesAlone(query) ? NormBackwardScratch(layout) : FusedNormBackwardScratch(layout.groups);
  }
};

template <bool kLast>
ImplementationPtr MakeImplementation() {
  return MakeSimpleImplementation<CudaNormImplementation>(
      {.name = "cuda", .device = DeviceType::kCuda}, GpuFunctions<GpuBatchNorm<kLast>>::All());
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
