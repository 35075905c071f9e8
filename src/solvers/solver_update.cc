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

std::vector<BlobUpdate> Solver::BlobsToUpdate(double rate, std::vector<size_t>* slots) {
  std::vector<BlobUpdate> blobs;
  for (size_t s = 0; s < history_.size(); ++s) {
    const LearnedSlot& slot = train_plan_->learned[s];
    if (slot.owner != static_cast<int>(s) || StandsStill(s)) continue;
    slots->push_back(s);
    blobs.push_back({.weights = device_ ? device_->weights(s) : weights_->blob(s),
                     .gradient = train_->LearnedGradient(s),
                     .history = device_ ? device_->history(s) : history_[s],
                     .rate = rate * slot.lr_mult,
                     .decay = static_cast<double>(param_.weight_decay()) * slot.decay_mult});
  }
  return blobs;
}

// What the gradients say of the scale that they were computed with.
bool Solver::JudgeScale(const UpdateArgs& args) {
  const double tried = LossScaleNow();
  const bool finite = device_
                          ? device_->HasFiniteGradients(args)
                          : std::isfinite(NormOf(train_->context().threads(), LearnedGradients()));
  if (scale_->Judge(finite)) return true;
  if (scale_->IsSpent()) {
    Fail(ErrorCode::kDiverged, StrCat("training diverged: the gradients of iteration ", iteration_,
                                      " are not finite even with a loss scale of ", tried));
  }
  options_.log->Write(
      Severity::kInfo,
      StrCat("loss_scale: gradients of iteration ", iteration_, " are not finite with a scale of ",
             tried, "; this update is skipped, and the scale is ", LossScaleNow(),
             " now (skipped so far: ", scale_->skipped(), ")"));
  return false;
}

bool Solver::ApplyUpdate(double rate) {
  std::vector<size_t> slots;
  const std::vector<BlobUpdate> blobs = BlobsToUpdate(rate, &slots);
  const double limit = param_.clip_gradient_value();
  // Gradients are sums over ranks, as if of a loss so many times as large.
  const double scale = LossScaleNow() * RankCount();
  UpdateArgs args{.context = train_->context(),
                  .param = param_,
                  .iteration = iteration_,
                  .blobs = blobs,
                  .gradient_scale = 1.0 / (param_.iter_size() * scale),
                  .gradient_limit = limit >= 0 ? limit : std::numeric_limits<double>::infinity(),
                  .momentum = MomentumAt(rule_, param_, iteration_),
                  .regularization = param_.regularization_type() == "L1" ? Regularization::kL1
                                                                         : Regularization::kL2};
  gradient_scale_ = args.gradient_scale;
  if (scale_ && !JudgeScale(args)) return false;
  if (device_) {
    // Of gradients as they are, which have the scale in them.
    device_->Update(rule_, args, param_.clip_gradients() * scale, std::move(slots));
    return true;
  }
  args.gradient_scale = GradientScale(scale);
  const int64_t broken = rule_.apply(args);
  if (broken < 0) return true;
  throw DiagnoseUpdate(*train_, slots[static_cast<size_t>(broken)], RunSoFar(iteration_));
}

void Solver::MoveAverage() {
  if (!average_) return;
  if (device_) return device_->MoveAverage();
  average_->Update(train_->context(), *weights_);
}

void Solver::JudgeUpdateOnDevice() {
  const int64_t slot = device_ ? device_->TakeBrokenSlot() : -1;
  if (slot >= 0) {
    throw DiagnoseUpdate(*train_, static_cast<size_t>(slot), RunSoFar(iteration_ - 1));
  }
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
