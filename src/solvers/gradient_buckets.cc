#include "solvers/gradient_buckets.h"

#include <algorithm>

#include "core/tensor.h"
#include "plan/plan.h"

namespace crema {
namespace {

// Returns for each slot the layer that is the last to add to its gradient: backward passes run from
// the last layer to the first.
std::vector<size_t> LastWriters(const Plan& plan) {
  std::vector<size_t> writers(plan.parameters.size(), plan.layers.size());
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const PlannedLayer& layer = plan.layers[i];
    const int leader = layer.fusion.leader;
    const size_t computed_by = leader < 0 ? i : std::min(i, static_cast<size_t>(leader));
    for (const int slot : layer.parameters) {
      const int owner = plan.parameters[static_cast<size_t>(slot)].owner;
      size_t& writer = writers[static_cast<size_t>(owner)];
      writer = std::min(writer, computed_by);
    }
  }
  return writers;
}

}  // namespace

GradientBuckets::GradientBuckets(Session* session, Collective* collective, int rank, size_t values)
    : session_(*session), collective_(*collective), rank_(rank) {
  const std::span<float> all = session->ParameterGradientMemory();
  const std::vector<size_t> writers = LastWriters(session->plan());
  // The memory has the gradients in the order of their slots.
  const size_t small = values / 4;
  size_t end = all.size();
  size_t after = session->plan().layers.size();
  for (size_t s = writers.size(); s-- > 0;) {
    const TensorView gradient = session->ParameterGradient(s);
    if (gradient.empty() || session->plan().parameters[s].owner != static_cast<int>(s)) continue;
    after = std::min(after, writers[s]);
    const auto begin = static_cast<size_t>(static_cast<float*>(gradient.raw()) - all.data());
    const bool full = end - begin >= (buckets_.empty() ? small : values);
    const bool leaves_last = begin <= small && end > small;
    if (!full && !leaves_last) continue;
    buckets_.push_back({all.subspan(begin, end - begin), after});
    end = begin;
  }
  if (end > 0) buckets_.push_back({all.first(end), after});
}

void GradientBuckets::Arm() {
  started_ = 0;
  session_.set_observer(this);
}

void GradientBuckets::AfterBackward(size_t layer, const BackwardArgs&) { StartUntil(layer); }

void GradientBuckets::Finish() {
  session_.set_observer(nullptr);
  StartUntil(0);
  collective_.FinishSums(rank_);
}

void GradientBuckets::StartUntil(size_t layer) {
  for (; started_ < buckets_.size() && buckets_[started_].after >= layer; ++started_) {
    collective_.StartSum(rank_, buckets_[started_].values);
  }
}

}  // namespace crema
