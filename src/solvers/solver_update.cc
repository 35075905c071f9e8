// One update of a solver: from the gradients of an iteration to new weights.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "solvers/rules/norms.h"
#include "solvers/solver.h"

namespace crema {

// Clipping works on the sum over iter_size, before division and before weight decay, as in Caffe.
double Solver::GradientScale(double loss_scale) {
  const double scale = 1.0 / (param_.iter_size() * loss_scale);
  const double largest = param_.clip_gradients() * loss_scale;
  if (largest < 0) return scale;
  const double norm = NormOf(train_->context().threads(), LearnedGradients());
  return norm > largest ? scale * largest / norm : scale;
}

std::vector<ConstTensorView> Solver::LearnedGradients() {
  std::vector<ConstTensorView> gradients;
  for (size_t s = 0; s < history_.size(); ++s) {
    const TensorView gradient = train_->LearnedGradient(s);
    if (!history_[s].empty() && !gradient.empty()) gradients.emplace_back(gradient);
  }
  return gradients;
}

// Neither gradient nor decay moves this blob. Its history is zero unless it was restored, and even
// then moves a blob that is not learned only where the rate is part of it. Caffe updates the
// history of such blobs, which changes no weight.
bool Solver::StandsStill(size_t slot) {
  const LearnedSlot& learned = train_plan_->learned[slot];
  if (!train_->LearnedGradient(slot).empty()) return false;
  if (learned.lr_mult != 0 && param_.weight_decay() * learned.decay_mult != 0) return false;
  return !restored_ || (learned.lr_mult == 0 && !rule_.rate_in_history);
}

void Solver::FindBlobsToUpdate(double rate) {
  blobs_.clear();
  slots_.clear();
  for (size_t s = 0; s < history_.size(); ++s) {
    const LearnedSlot& slot = train_plan_->learned[s];
    if (slot.owner != static_cast<int>(s) || StandsStill(s)) continue;
    slots_.push_back(s);
    blobs_.push_back({.weights = device_ ? device_->weights(s) : weights_->blob(s),
                      .gradient = train_->LearnedGradient(s),
                      .history = device_ ? device_->history(s) : history_[s],
                      .rate = rate * slot.lr_mult,
                      .decay = static_cast<double>(param_.weight_decay()) * slot.decay_mult});
  }
}

// What the gradients say of the scale that they were computed with.
bool Solver::JudgeScale() {
  const double tried = LossScaleNow();
  if (scale_->Judge(std::isfinite(NormOf(train_->context().threads(), LearnedGradients())))) {
    return true;
  }
  ReportSkippedUpdate(iteration_, tried);
  return false;
}

// Throws kDiverged where no scale is left.
void Solver::ReportSkippedUpdate(int64_t iteration, double tried) {
  if (scale_->IsSpent()) {
    Fail(ErrorCode::kDiverged, StrCat("training diverged: the gradients of iteration ", iteration,
                                      " are not finite even with a loss scale of ", tried));
  }
  options_.log->Write(
      Severity::kInfo,
      StrCat("loss_scale: gradients of iteration ", iteration, " are not finite with a scale of ",
             tried, "; this update is skipped, and the scale is ", LossScaleNow(),
             " now (skipped so far: ", scale_->skipped(), ")"));
}

// Of gradients that were computed without a loss scale; they are sums over ranks, as if of a loss
// so many times as large.
UpdateArgs Solver::ArgsOfUpdate(double rate) {
  FindBlobsToUpdate(rate);
  const double limit = param_.clip_gradient_value();
  return {.context = train_->context(),
          .param = param_,
          .iteration = iteration_,
          .blobs = blobs_,
          .gradient_scale = 1.0 / (param_.iter_size() * ranks_.count()),
          .gradient_limit = limit >= 0 ? limit : std::numeric_limits<double>::infinity(),
          .momentum = MomentumAt(rule_, param_, iteration_),
          .regularization =
              param_.regularization_type() == "L1" ? Regularization::kL1 : Regularization::kL2};
}

bool Solver::ApplyUpdate(double rate) {
  UpdateArgs args = ArgsOfUpdate(rate);
  const double scale = LossScaleNow() * ranks_.count();
  gradient_scale_ = 1.0 / (param_.iter_size() * scale);
  if (scale_ && !JudgeScale()) return false;
  args.gradient_scale = GradientScale(scale);
  const int64_t broken = rule_.apply(args);
  if (broken < 0) return true;
  throw DiagnoseUpdate(*train_, slots_[static_cast<size_t>(broken)], RunSoFar(iteration_));
}

void Solver::MoveAverage() {
  if (!average_) return;
  if (device_) return device_->MoveAverage();
  average_->Update(train_->context(), *weights_);
}

void Solver::ReturnWeights() {
  if (device_) device_->ReturnWeights();
}

void Solver::ReturnHistory() {
  if (device_) device_->ReturnHistory();
}

Weights& Solver::weights() {
  ReturnWeights();
  return *weights_;
}

Weights* Solver::averaged_weights() {
  ReturnWeights();
  return average_ ? &average_->weights() : nullptr;
}

}  // namespace crema
