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

// As GroupMoments, from given sums of the elements of the groups, followed by those of their
// squares. In f32 and around zero, these sums lose a variance that is small compared to the square
// of the mean. Such groups are measured from x, by one team each, which is slow but rare.
template <typename T, typename Finish>
static void MomentsOfSums(const CudaQueue& queue, const GroupLayout& groups, const T* x,
                          const float* sums, const Finish& finish) {
  constexpr double kMostSquare = 256;  // times the variance, whose error is then about 2^-16 of it
  const int64_t size = groups.GroupSize(), count = groups.Groups();
  const MomentTerm<T> term{groups, x, size > 0};
  ForTeams(queue, "MomentsOfSums", count, [=] CREMA_HOST_DEVICE(const Team& team, int64_t g) {
    const auto n = static_cast<double>(size);
    double mean = static_cast<double>(sums[g]) / n;
    double variance = static_cast<double>(sums[count + g]) / n - mean * mean;
    if (!(mean * mean <= kMostSquare * variance)) {  // true for NaN too
      const auto own = term.OfGroup(g);
      const SumPair all = team.Reduce<SumPair>(
          size, SumPair{},
          [&](SumPair s, int64_t i) {
            const int64_t at = ElementOfGroup(groups, g, i);
            return s + own.Take(g, at, own.Read(g, at));
          },
          [](SumPair a, SumPair b) { return a + b; });
      const double offset = all.first / n;
      mean = own.first + offset;
      variance = all.second / n - offset * offset;
    }
    team.For(1, [&](int64_t) { finish(g, mean, variance < 0 ? 0 : variance); });
  });
}

// `sums` are those of MomentsOfSums; null means not available.
template <typename T, typename L, typename To>
static void MeasureBatch(const CudaQueue& queue, const BatchNormBase& norm,
                         const GroupLayout& groups, const T* x, const float* sums,
                         const Stored<L>& stored, SumPair* scratch, const To& to) {
  const StoredUpdate update = norm.UpdateBy(groups.GroupSize());
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
  if (sums != nullptr && groups.GroupSize() > 0) {
    MomentsOfSums(queue, groups, x, sums, finish);
  } else {
    GroupMoments(queue, groups, x, scratch, finish);
  }
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

// Measures the batch. Blobs are of type T, statistics of type L; `sums` as in MeasureBatch.
template <typename T, typename L, typename To>
static void MeasureInput(const BatchNormBase& norm, const GroupLayout& groups,
                         const ForwardArgs& args, const float* sums, SumPair* scratch,
                         const To& to) {
  const BatchNormRule& rule = norm.rule();
  const Stored<L> stored{BlobOf<L>(args.statistics, rule.mean),
                         BlobOf<L>(args.statistics, rule.variance),
                         BlobOf<L>(args.statistics, rule.factor)};
  MeasureBatch(BoundQueue(args.context), norm, groups, Elements<T>(args.inputs[0]), sums, stored,
               scratch, to);
}

// Measures the batch or reads the running statistics, whichever the phase uses.
template <typename T, typename L, typename To>
static void Measure(const BatchNormBase& norm, const GroupLayout& groups, const ForwardArgs& args,
                    const float* sums, SumPair* scratch, const To& to) {
  const CudaQueue& queue = BoundQueue(args.context);
  const BatchNormRule& rule = norm.rule();
  if (rule.identity) return SetOnes(queue, groups.Groups(), to);
  if (norm.UsesBatch(args.phase)) {
    return MeasureInput<T, L>(norm, groups, args, sums, scratch, to);
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
