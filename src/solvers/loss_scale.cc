#include "solvers/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"

namespace crema {
namespace {

bool IsScale(double scale) {
  return scale >= ScaleState::kSmallest && scale <= ScaleState::kLargest;
}

bool LearnsByItself(const PlannedLayer& layer) {
  return layer.backward && std::ranges::any_of(layer.type->samples, [](const LayerSample& sample) {
           return !sample.parameter_gradient;
         });
}

}  // namespace

LossScale::LossScale(const LossScaleParameter& param)
    : growth_interval_(param.growth_interval()), state_{.scale = param.initial()} {}

bool LossScale::Judge(bool finite) { return state_.Judge(finite, growth_interval_); }

bool LossScale::IsSpent() const { return state_.IsSpent(); }

void LossScale::Save(SolverState* state) const {
  LossScaleState* saved = state->mutable_loss_scale();
  saved->set_scale(state_.scale);
  saved->set_good_updates(static_cast<int>(state_.good));
  saved->set_skipped_updates(state_.skipped);
}

void LossScale::Restore(const SolverState& state, const std::string& path) {
  if (!state.has_loss_scale()) return;
  const LossScaleState& saved = state.loss_scale();
  if (!IsScale(saved.scale()) || saved.good_updates() < 0 || saved.skipped_updates() < 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the state is damaged: loss_scale ", saved.scale()),
         {.file = path});
  }
  state_ = {
      .scale = saved.scale(), .good = saved.good_updates(), .skipped = saved.skipped_updates()};
}

std::vector<Problem> CheckLossScale(const SolverParameter& param) {
  std::vector<Problem> problems;
  const auto report = [&](const char* field, std::string message) {
    problems.push_back({ErrorCode::kInvalidArgument, {.field = field}, std::move(message)});
  };
  const LossScaleParameter& scale = param.loss_scale();
  if (!IsScale(scale.initial())) {
    report("loss_scale.initial", StrCat("initial is ", scale.initial(), "; use 2^-10 to 2^24"));
  }
  if (scale.growth_interval() < 1) {
    report("loss_scale.growth_interval",
           StrCat("growth_interval is ", scale.growth_interval(), "; use 1 or more"));
  }
  return problems;
}

bool WantsLossScale(const SolverParameter& param, const Plan& plan) {
  const bool halves = std::ranges::any_of(
      plan.values, [](const PlannedValue& value) { return StoredType(value.spec) == DType::kF16; });
  if (!halves && !param.has_loss_scale()) return false;
  const auto found = std::ranges::find_if(plan.layers, LearnsByItself);
  if (found == plan.layers.end()) return true;
  Fail(
      ErrorCode::kUnsupported,
      StrCat("a layer of type ", found->type->name,
             " changes what it learns by a rule of its own, which knows no loss_scale; train it in "
             "BF16 or FP32"),
      {.layer = found->name()});
}

}  // namespace crema
