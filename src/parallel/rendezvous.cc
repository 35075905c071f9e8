#include "parallel/rendezvous.h"

namespace crema {

bool Rendezvous::Wait() {
  std::unique_lock lock(mutex_);
  if (released_) return false;
  const uint64_t round = round_;
  if (++here_ == parties_) {
    here_ = 0;
    ++round_;
    changed_.notify_all();
    return true;
  }
  changed_.wait(lock, [&] { return round_ != round || released_; });
  return round_ != round;
}

void Rendezvous::Release() noexcept {
  const std::lock_guard lock(mutex_);
  released_ = true;
  changed_.notify_all();
}

bool Rendezvous::released() const {
  const std::lock_guard lock(mutex_);
  return released_;
}

}  // namespace crema
