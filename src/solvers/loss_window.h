// The running mean of the last losses (average_loss).
#pragma once

#include <cstdint>
#include <vector>

#include "crema.pb.h"

namespace crema {

// The mean of the last `size` losses, or of all if there are fewer. They are stored as in a
// snapshot, so that a resumed run has the same means bit for bit.
class LossWindow {
 public:
  explicit LossWindow(int size) : size_(static_cast<size_t>(size)) {}

  void Add(double loss) {
    const auto kept = static_cast<float>(loss);
    if (losses_.size() < size_) {
      losses_.push_back(kept);
    } else {
      losses_[oldest_] = kept;
      oldest_ = (oldest_ + 1) % size_;
    }
  }

  double Mean() const {
    double sum = 0;
    for (size_t i = 0; i < losses_.size(); ++i) sum += losses_[(oldest_ + i) % losses_.size()];
    return losses_.empty() ? 0 : sum / static_cast<double>(losses_.size());
  }

  void Save(SolverState* state) const {
    for (size_t i = 0; i < losses_.size(); ++i) {
      state->add_recent_losses(losses_[(oldest_ + i) % losses_.size()]);
    }
  }

  void Restore(const SolverState& state) {
    losses_.clear();
    oldest_ = 0;
    for (float loss : state.recent_losses()) Add(loss);
  }

 private:
  size_t size_;
  std::vector<float> losses_;
  size_t oldest_ = 0;
};

}  // namespace crema
