#include "solvers/device_state.h"

#include <utility>

namespace crema {

DeviceState::DeviceState(Session* session, WeightAverage* average,
                         const std::vector<std::vector<TensorView>>& history,
                         const DeviceUpdateMaker& maker)
    : session_(session),
      average_(average),
      host_history_(history),
      update_(maker(session->context())),
      history_(history.size()),
      averages_(history.size()) {
  const auto like = [&](const TensorView& view) {
    memory_.emplace_back(view.shape(), view.dtype(), session_->context().allocator());
    return memory_.back().view();
  };
  for (size_t s = 0; s < history.size(); ++s) {
    for (const TensorView& view : history[s]) history_[s].push_back(like(view));
    if (average_ == nullptr || !Owns(s)) continue;
    averages_[s] = like(average_->weights().blob(s));
    averaged_.push_back(
        {averages_[s], session_->Parameter(s), session_->plan().parameters[s].statistic});
  }
}

bool DeviceState::Owns(size_t slot) const {
  return session_->plan().parameters[slot].owner == static_cast<int>(slot);
}

void DeviceState::TakeAll() {
  session_->TakeWeights();
  TakeAverage();
  for (size_t s = 0; s < history_.size(); ++s) {
    for (size_t h = 0; h < history_[s].size(); ++h) {
      session_->Write(history_[s][h], host_history_[s][h].raw());
    }
  }
  weights_changed_ = false;
  history_changed_ = false;
}

void DeviceState::TakeAverage() {
  if (average_ == nullptr) return;
  for (size_t s = 0; s < averages_.size(); ++s) {
    if (Owns(s)) session_->Write(averages_[s], average_->weights().blob(s).raw());
  }
}

void DeviceState::ReturnWeights() {
  if (!weights_changed_) return;
  session_->ReturnWeights();
  for (size_t s = 0; average_ != nullptr && s < averages_.size(); ++s) {
    if (Owns(s)) session_->Read(averages_[s], average_->weights().blob(s).raw());
  }
  weights_changed_ = false;  // not earlier: a lost GPU returns nothing
}

void DeviceState::ReturnHistory() {
  if (!history_changed_) return;
  for (size_t s = 0; s < history_.size(); ++s) {
    for (size_t h = 0; h < history_[s].size(); ++h) {
      session_->Read(history_[s][h], host_history_[s][h].raw());
    }
  }
  history_changed_ = false;
}

void DeviceState::Update(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
                         int64_t growth_interval, const std::vector<size_t>& slots) {
  LosingQueue(session_->context().queue(),
              [&] { update_->Apply(rule, args, clip_norm, growth_interval); });
  slots_ = slots;
  weights_changed_ = true;
  history_changed_ = true;
}

void DeviceState::Begin(const ScaleState* scale) {
  DeviceRun run;
  if (scale != nullptr) {
    run.scale = *scale;
    session_->set_loss_scale_place(update_->ScalePlace());
  }
  update_->Begin(run);
}

void DeviceState::NotePass(int64_t pass) {
  weights_changed_ = true;
  LosingQueue(session_->context().queue(), [&] { update_->NoteLoss(session_->LossPlace(), pass); });
}

void DeviceState::MoveAverage() {
  LosingQueue(session_->context().queue(), [&] { update_->Average(averaged_, average_->step()); });
}

std::vector<GradientReport> DeviceState::BrokenGradients() {
  const std::vector<GradientReport> of_blobs = update_->BrokenGradients();
  std::vector<GradientReport> reports(history_.size(), GradientReport{0, -1, 0, 0});
  for (size_t b = 0; b < of_blobs.size(); ++b) reports.at(slots_.at(b)) = of_blobs[b];
  return reports;
}

}  // namespace crema
