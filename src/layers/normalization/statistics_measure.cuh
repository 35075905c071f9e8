// Means and variances of channels for the GPU implementations of BatchNorm and BN; see
// batch_norm_base.cc.
#pragma once

#include <cmath>
#include <type_traits>

#include "layers/gpu_implementation.h"
#include "layers/normalization/batch_norm_base.h"
#include "layers/normalization/norm_passes.cuh"

namespace crema {

inline const BatchNormBase& NormOf(const Layer& layer) {
  return static_cast<const BatchNormBase&>(layer);
}

// Returns blob `index` of a rule; null if the rule has none or it is not needed.
template <typename T>
static auto BlobOf(const auto& views, int index) {
  const auto at = static_cast<size_t>(index);
  using View = std::remove_cvref_t<decltype(views[0])>;
  return Elements<T>(index == BatchNormRule::kNone || at >= views.size() ? View() : views[at]);
}

template <typename T>
struct Stored {
  T *mean, *variance, *factor;  // null factor means 1
};

template <typename T, typename L, typename To>
static void MeasureBatch(const CudaQueue& queue, const BatchNormBase& norm,
                         const GroupLayout& groups, const T* x, const Stored<L>& stored,
                         SumPair* scratch, const To& to) {
  const StoredUpdate update = norm.UpdateBy(static_cast<double>(groups.GroupSize()));
  const bool updates =
      stored.mean != nullptr && stored.variance != nullptr && groups.GroupSize() > 0;
  const auto finish = [=] CREMA_HOST_DEVICE(int64_t c, double mean, double variance) {
    to.Set(c, mean, variance);
    if (!updates) return;
    const double factor = stored.factor == nullptr ? 1 : ToFloat(*stored.factor);
    const double old_mean = ToFloat(stored.mean[c]);
    const double old_variance = ToFloat(stored.variance[c]);
    stored.mean[c] = FromFloat<L>(static_cast<float>(update.Mean(factor, old_mean, mean)));
    stored.variance[c] =
        FromFloat<L>(static_cast<float>(update.Variance(factor, old_variance, variance)));
  };
  GroupMoments(queue, groups, x, scratch, finish);
  if (!updates || stored.factor == nullptr) return;
  ForElements(queue, "UpdateFactor", 1, [=] CREMA_HOST_DEVICE(int64_t) {
    const double factor = ToFloat(*stored.factor);
    *stored.factor = FromFloat<L>(static_cast<float>(update.Factor(factor)));
  });
}

template <typename T, typename To>
static void ReadStored(const CudaQueue& queue, int64_t channels, const Stored<const T>& stored,
                       const To& to) {
  ForElements(queue, "ReadStored", channels, [=] CREMA_HOST_DEVICE(int64_t c) {
    double factor = stored.factor == nullptr ? 1 : ToFloat(*stored.factor);
    factor = factor == 0 ? 0 : 1 / factor;
    to.Set(c, factor * static_cast<double>(ToFloat(stored.mean[c])),
           factor * static_cast<double>(ToFloat(stored.variance[c])));
  });
}

template <typename To>
static void SetOnes(const CudaQueue& queue, int64_t channels, To to) {
  to.eps = 0;
  ForElements(queue, "SetOnes", channels, [=] CREMA_HOST_DEVICE(int64_t c) { to.Set(c, 0, 1); });
}

// Measures the batch or reads the running statistics, whichever the phase uses. Blobs are of type
// T, statistics of type L.
template <typename T, typename L, typename To>
static void Measure(const BatchNormBase& norm, const GroupLayout& groups, const ForwardArgs& args,
                    SumPair* scratch, const To& to) {
  const CudaQueue& queue = BoundQueue(args.context);
  const BatchNormRule& rule = norm.rule();
  if (rule.identity) return SetOnes(queue, groups.Groups(), to);
  if (norm.UsesBatch(args.phase)) {
    const Stored<L> stored{BlobOf<L>(args.statistics, rule.mean),
                           BlobOf<L>(args.statistics, rule.variance),
                           BlobOf<L>(args.statistics, rule.factor)};
    return MeasureBatch(queue, norm, groups, Elements<T>(args.inputs[0]), stored, scratch, to);
  }
  const Stored<const L> stored{BlobOf<L>(args.parameters, rule.mean),
                               BlobOf<L>(args.parameters, rule.variance),
                               BlobOf<L>(args.parameters, rule.factor)};
  ReadStored(queue, groups.Groups(), stored, to);
}

// Returns true if the running statistics are f32, even with 16-bit blobs.
inline bool HasStatisticsInF32(const BatchNormRule& rule,
                               std::span<const ConstTensorView> parameters) {
  const auto mean = static_cast<size_t>(rule.mean);
  return rule.mean != BatchNormRule::kNone && mean < parameters.size() &&
         parameters[mean].dtype() == DType::kF32;
}

}  // namespace crema
