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
        {averages_[s], session_->LearnedBlob(s), session_->plan().learned[s].statistic});
  }
}

bool DeviceState::Owns(size_t slot) const {
  return session_->plan().learned[slot].owner == static_cast<int>(slot);
}

void DeviceState::TakeAll() {
  session_->TakeWeights();
  TakeAverage();
  for (size_t s = 0; s < history_.size(); ++s) {
    for (size_t h = 0; h < history_[s].size(); ++h) {
      session_->Write(history_[s][h], host_history_[s][h].raw());
    }
  }
  slots_.clear();
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
  if (!std::exchange(weights_changed_, false)) return;
  session_->ReturnWeights();
  if (average_ == nullptr) return;
  for (size_t s = 0; s < averages_.size(); ++s) {
    if (Owns(s)) session_->Read(averages_[s], average_->weights().blob(s).raw());
  }
}

void DeviceState::ReturnHistory() {
  if (!std::exchange(history_changed_, false)) return;
  for (size_t s = 0; s < history_.size(); ++s) {
    for (size_t h = 0; h < history_[s].size(); ++h) {
      session_->Read(history_[s][h], host_history_[s][h].raw());
    }
  }
}

void DeviceState::Update(const UpdateRule& rule, const UpdateArgs& args, double clip_norm,
                         std::vector<size_t> slots) {
  update_->Apply(rule, args, clip_norm);
  slots_ = std::move(slots);
  weights_changed_ = true;
  history_changed_ = true;
}

void DeviceState::MoveAverage() { update_->Average(averaged_, average_->step()); }

int64_t DeviceState::TakeBrokenSlot() {
  if (slots_.empty()) return -1;
  const int64_t broken = update_->FindBroken();
  const std::vector<size_t> slots = std::exchange(slots_, {});
  return broken < 0 ? -1 : static_cast<int64_t>(slots[static_cast<size_t>(broken)]);
}

}  // namespace crema
