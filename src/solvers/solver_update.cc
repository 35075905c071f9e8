// One update of a solver: from the gradients of an iteration to new weights.
#include <limits>
#include <utility>
#include <vector>

#include "solvers/rules/norms.h"
#include "solvers/solver.h"

namespace crema {

// Clipping works on the sum over iter_size, before division and before weight decay, as in Caffe.
double Solver::GradientScale() {
  const double scale = 1.0 / param_.iter_size();
  const double largest = param_.clip_gradients();
  if (largest < 0) return scale;
  std::vector<ConstTensorView> gradients;
  for (size_t s = 0; s < history_.size(); ++s) {
    const TensorView gradient = train_->LearnedGradient(s);
    if (!history_[s].empty() && !gradient.empty()) gradients.emplace_back(gradient);
  }
  const double norm = NormOf(train_->context().threads(), gradients);
  return norm > largest ? scale * largest / norm : scale;
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

void Solver::ApplyUpdate(double rate) {
  std::vector<size_t> slots;
  const std::vector<BlobUpdate> blobs = BlobsToUpdate(rate, &slots);
  const double limit = param_.clip_gradient_value();
  const UpdateArgs args{
      .context = train_->context(),
      .param = param_,
      .iteration = iteration_,
      .blobs = blobs,
      .gradient_scale = device_ ? 1.0 / param_.iter_size() : GradientScale(),
      .gradient_limit = limit >= 0 ? limit : std::numeric_limits<double>::infinity(),
      .momentum = MomentumAt(rule_, param_, iteration_),
      .regularization =
          param_.regularization_type() == "L1" ? Regularization::kL1 : Regularization::kL2};
  if (device_) return device_->Update(rule_, args, param_.clip_gradients(), std::move(slots));
  const int64_t broken = rule_.apply(args);
  if (broken < 0) return;
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
