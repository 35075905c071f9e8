#include "solvers/ema.h"

#include <algorithm>
#include <span>
#include <utility>

#include "core/parallel_for.h"

namespace crema {
namespace {

void CopyBlob(const ConstTensorView& from, const TensorView& to) {
  std::copy_n(static_cast<const std::byte*>(from.raw()), from.bytes(),
              static_cast<std::byte*>(to.raw()));
}

}  // namespace

WeightAverage::WeightAverage(std::shared_ptr<const Plan> plan, double decay, uint64_t seed)
    : plan_(std::move(plan)),
      step_(static_cast<float>(1 - decay)),
      average_(Weights::Make(*plan_, seed)) {}

void WeightAverage::Reset(const Weights& weights) { CopyWeights(*plan_, weights, average_.get()); }

void WeightAverage::Update(const ExecContext& context, const Weights& weights) {
  constexpr int64_t kGrain = 1 << 15;  // elements worth a thread
  for (size_t s = 0; s < plan_->parameters.size(); ++s) {
    const ParameterSlot& slot = plan_->parameters[s];
    if (slot.owner != static_cast<int>(s)) continue;
    if (slot.statistic) continue;
    const std::span<const float> from = weights.blob(s).span<float>();
    const std::span<float> to = average_->blob(s).span<float>();
    const auto count = static_cast<int64_t>(from.size());
    ParallelFor(context.threads(), count, kGrain, [&](int64_t begin, int64_t end, int) {
      // In this form an average that equals the weight stays exactly equal.
      for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        to[i] += step_ * (from[i] - to[i]);
      }
    });
  }
  CopyStatistics(weights);
}

void WeightAverage::CopyStatistics(const Weights& weights) {
  for (size_t s = 0; s < plan_->parameters.size(); ++s) {
    const ParameterSlot& slot = plan_->parameters[s];
    if (slot.statistic && slot.owner == static_cast<int>(s)) {
      CopyBlob(weights.blob(s), average_->blob(s));
    }
  }
}

void CopyWeights(const Plan& plan, const Weights& from, Weights* to) {
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    if (plan.parameters[s].owner == static_cast<int>(s)) CopyBlob(from.blob(s), to->blob(s));
  }
}

}  // namespace crema
