#include "solvers/learning_rate.h"

#include <algorithm>
#include <limits>

#include "crema.pb.h"

namespace crema {
namespace {

// Only if the field is set: 0, its default, would be a floor too.
double Floored(const SolverParameter& param, double rate) {
  return param.has_min_lr() ? std::max<double>(rate, param.min_lr()) : rate;
}

double WarmUp(const SolverParameter& param, int64_t iteration) {
  const double share = static_cast<double>(iteration) / param.warmup_iter();
  const double start = param.warmup_start_lr();
  return Floored(param, start + (param.base_lr() - start) * share);
}

double RampUp(const SolverParameter& param, int64_t iteration) {
  const double share = static_cast<double>(iteration) / param.rampup_interval();
  const double start = param.rampup_lr();
  return Floored(param, start + (param.base_lr() - start) * share * share);
}

}  // namespace

LearningRate::LearningRate(const SolverParameter& param)
    : param_(param),
      policy_(FindLrPolicy(param.lr_policy())),
      minimum_loss_(SolverState::default_instance().minimum_loss()) {
  CREMA_CHECK(policy_ != nullptr);
}

double LearningRate::At(int64_t iteration) {
  if (iteration < param_.warmup_iter()) return WarmUp(param_, iteration);
  if (iteration < param_.rampup_interval()) return RampUp(param_, iteration);
  return Floored(param_, policy_->rate(param_, iteration, &current_step_));
}

bool LearningRate::IsRising(int64_t iteration) const {
  return iteration < std::max(param_.warmup_iter(), param_.rampup_interval());
}

// In single precision, with the operations of SSD's solver, so that it drops at the same
// iterations.
bool LearningRate::ObserveLoss(int64_t iteration, double smoothed_loss) {
  if (!FollowsLoss() || IsRising(iteration)) return false;
  const auto loss = static_cast<float>(smoothed_loss);
  if (loss < minimum_loss_) {
    minimum_loss_ = loss;
    last_event_ = iteration;
  }
  if (current_step_ >= param_.plateau_winsize_size()) return false;
  if (iteration < last_event_ + param_.plateau_winsize(current_step_)) return false;
  ++current_step_;
  last_event_ = iteration;
  return true;
}

void LearningRate::BindTests(std::span<const Plan* const> tests) {
  if (wants_metric()) tests_.emplace("plateau", param_.plateau(), tests);
}

bool LearningRate::ObserveTests(int64_t iteration, std::span<const TestReport> reports) {
  if (!wants_metric()) return false;
  CREMA_CHECK(tests_.has_value());
  tests_->Update(iteration, reports);
  if (IsRising(iteration)) tests_->ResetWait();
  if (!tests_->OutOfPatience()) return false;
  tests_->ResetWait();
  ++current_step_;
  return true;
}

void LearningRate::Save(SolverState* state) const {
  state->set_current_step(current_step_);
  if (param_.lr_policy() != "plateau") return;
  if (tests_) {
    tests_->Save(state);
    return;
  }
  state->set_minimum_loss(minimum_loss_);
  state->set_iter_last_event(static_cast<int>(last_event_));
}

void LearningRate::Restore(const SolverState& state) {
  current_step_ = state.current_step();
  minimum_loss_ = state.minimum_loss();
  last_event_ = state.iter_last_event();
  if (tests_) tests_->Restore(state);
}

int LearningRate::most_steps() const {
  return policy_->most_steps != nullptr ? policy_->most_steps(param_)
                                        : std::numeric_limits<int>::max();
}

double WarmupMomentumFactor(const SolverParameter& param, int64_t iteration) {
  if (iteration <= 0 || iteration >= param.warmup_iter()) return 1;
  const double before = WarmUp(param, iteration - 1);
  return before == 0 ? 1 : WarmUp(param, iteration) / before;  // from 0: the history is zero
}

}  // namespace crema
