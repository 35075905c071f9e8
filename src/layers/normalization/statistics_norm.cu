// BatchNorm and BN on the GPU; see statistics_norm.cc.
#include <cmath>

#include "layers/channels_last_row.h"
#include "layers/gpu_row.h"
#include "layers/normalization/norm_passes.cuh"
#include "layers/normalization/statistics_norm.h"

namespace crema {
namespace {

enum Saved : size_t { kInverse, kNormal };

const StatisticsNorm& NormOf(const Layer& layer) {
  return static_cast<const StatisticsNorm&>(layer);
}

// Blob `index` of a rule; null where the rule has none or it is not wanted.
template <typename T>
auto BlobOf(const auto& views, int index) {
  const auto at = static_cast<size_t>(index);
  using View = std::remove_cvref_t<decltype(views[0])>;
  return Elements<T>(index == StatisticsNormRule::kNone || at >= views.size() ? View() : views[at]);
}

template <bool kLast>
NormLayout LayoutOf(const StatisticsNorm& norm, const Shape& input) {
  if (!kLast) return norm.Layout(input);
  const GroupLayout channels = ChannelsLastGroups(input);
  return {channels, channels};
}

template <bool kLast>
size_t ForwardScratch(const KernelQuery& query) {
  return NormForwardScratch(LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape));
}
template <bool kLast>
size_t BackwardScratch(const KernelQuery& query) {
  return NormBackwardScratch(LayoutOf<kLast>(NormOf(query.layer), query.context.inputs[0].shape));
}

// What both kinds of statistics become; `saved` may be null.
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

template <typename T>
struct Stored {
  T *mean, *variance, *factor;  // factor null: 1
};

template <typename T, typename L>
void MeasureBatch(const CudaQueue& queue, const StatisticsNorm& norm, const GroupLayout& groups,
                  const T* x, const Stored<L>& stored, SumPair* scratch, const Coefficients& to) {
  const StoredUpdate update = norm.UpdateBy(groups.GroupSize());
  const bool updates =
      stored.mean != nullptr && stored.variance != nullptr && groups.GroupSize() > 0;
  GroupMoments(
      queue, groups, x, scratch, [=] CREMA_HOST_DEVICE(int64_t c, double mean, double variance) {
        to.Set(c, mean, variance);
        if (!updates) return;
        const double factor = stored.factor == nullptr ? 1 : ToFloat(*stored.factor);
        const double old_mean = ToFloat(stored.mean[c]);
        const double old_variance = ToFloat(stored.variance[c]);
        stored.mean[c] = FromFloat<L>(static_cast<float>(update.Mean(factor, old_mean, mean)));
        stored.variance[c] =
            FromFloat<L>(static_cast<float>(update.Variance(factor, old_variance, variance)));
      });
  if (!updates || stored.factor == nullptr) return;
  ForElements(queue, "UpdateFactor", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    const double factor = ToFloat(*stored.factor);
    *stored.factor = FromFloat<L>(static_cast<float>(update.Factor(factor)));
  });
}

template <typename T>
void ReadStored(const CudaQueue& queue, int64_t channels, const Stored<const T>& stored,
                const Coefficients& to) {
  ForElements(queue, "ReadStored", channels, [=] CREMA_HOST_DEVICE(int64_t c) {
    double factor = stored.factor == nullptr ? 1 : ToFloat(*stored.factor);
    factor = factor == 0 ? 0 : 1 / factor;
    to.Set(c, factor * static_cast<double>(ToFloat(stored.mean[c])),
           factor * static_cast<double>(ToFloat(stored.variance[c])));
  });
}

void SetOnes(const CudaQueue& queue, int64_t channels, Coefficients to) {
  to.eps = 0;
  ForElements(queue, "SetOnes", channels, [=] CREMA_HOST_DEVICE(int64_t c) { to.Set(c, 0, 1); });
}

// Blobs of T, statistics of L.
template <typename T, typename L>
void Measure(const StatisticsNorm& norm, const GroupLayout& groups, const ForwardArgs& args,
             SumPair* scratch, const Coefficients& to) {
  const CudaQueue& queue = BoundQueue(args.context);
  const StatisticsNormRule& rule = norm.rule();
  if (rule.identity) return SetOnes(queue, groups.Groups(), to);
  if (norm.UsesBatch(args.phase)) {
    const Stored<L> stored{BlobOf<L>(args.statistics, rule.mean),
                           BlobOf<L>(args.statistics, rule.variance),
                           BlobOf<L>(args.statistics, rule.factor)};
    return MeasureBatch(queue, norm, groups, Elements<T>(args.inputs[0]), stored, scratch, to);
  }
  const Stored<const L> stored{BlobOf<L>(args.learned, rule.mean),
                               BlobOf<L>(args.learned, rule.variance),
                               BlobOf<L>(args.learned, rule.factor)};
  ReadStored(queue, groups.Groups(), stored, to);
}

// Also where all else is of halves.
bool HasStatisticsInF32(const StatisticsNormRule& rule, std::span<const ConstTensorView> learned) {
  const auto mean = static_cast<size_t>(rule.mean);
  return rule.mean != StatisticsNormRule::kNone && mean < learned.size() &&
         learned[mean].dtype() == DType::kF32;
}

void Forward(const StatisticsNorm& norm, const NormLayout& layout, const ForwardArgs& args) {
  const StatisticsNormRule& rule = norm.rule();
  ScratchCutter cutter(args.scratch);
  auto* scratch = cutter.Take<SumPair>(GroupSumsScratch(layout.groups));
  float* center = cutter.Take<float>(layout.groups.Groups());
  float* inverse = cutter.Take<float>(layout.groups.Groups());
  const Coefficients to{rule.eps, center, inverse, Elements<double>(At(args.saved, kInverse))};
  DispatchCudaFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    if (HasStatisticsInF32(rule, args.learned)) {
      Measure<T, float>(norm, layout.groups, args, scratch, to);
    } else {
      Measure<T, T>(norm, layout.groups, args, scratch, to);
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

void Backward(const StatisticsNorm& norm, const NormLayout& layout, const BackwardArgs& args) {
  const StatisticsNormRule& rule = norm.rule();
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
void ForwardRow(const Layer& layer, const ForwardArgs& args) {
  Forward(NormOf(layer), LayoutOf<kLast>(NormOf(layer), args.inputs[0].shape()), args);
}
template <bool kLast>
void BackwardRow(const Layer& layer, const BackwardArgs& args) {
  Backward(NormOf(layer), LayoutOf<kLast>(NormOf(layer), args.output_grads[0].shape()), args);
}

template <bool kLast>
Kernel MakeRow() {
  Kernel row = MakeCudaRow(ForwardRow<kLast>, BackwardRow<kLast>);
  row.forward_scratch = ForwardScratch<kLast>;
  row.backward_scratch = BackwardScratch<kLast>;
  return row;
}

Support HasChannelsOnAxis1(const KernelQuery& query) {
  if (NormOf(query.layer).rule().axis == 1) return {};
  return Support::No("is for channels on axis 1");
}

}  // namespace

void RegisterStatisticsNormCuda(Registry& registry) {
  for (const char* type : {"BN", "BatchNorm"}) {
    registry.AddKernel(type, InChannelsLast(MakeRow<true>(), HasChannelsOnAxis1));
    registry.AddKernel(type, MakeRow<false>());
  }
}

}  // namespace crema
