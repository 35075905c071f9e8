// Time limit of a connection's current operation. For connection.h.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

// After <utility>, which Asio 1.74 uses without including it.
#include <boost/asio.hpp>

namespace crema::server {

// Thread safety: the thread of the connection.
class TimeLimit {
 public:
  explicit TimeLimit(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  // Calls owner->CancelWork() on expiry, and again soon after, since between two reads of one body
  // there is nothing to cancel; owner->Break() if memory does not suffice for that.
  template <typename Owner>
  void Start(const std::weak_ptr<Owner>& owner, std::chrono::milliseconds duration) {
    passed_ = false;
    timer_.expires_after(duration);
    Watch(owner);
  }
  // Alternatively calls `work` once. It must not use the connection, which may not exist any more.
  template <typename Work>
  void Call(std::chrono::milliseconds wait, Work work) {
    timer_.expires_after(wait);
    timer_.async_wait([work = std::move(work)](boost::system::error_code error) {
      if (!error) work();
    });
  }
  void Stop() { timer_.expires_at(std::chrono::steady_clock::time_point::max()); }
  // Returns true if the last Start has expired.
  bool passed() const { return passed_; }

 private:
  template <typename Owner>
  void Watch(const std::weak_ptr<Owner>& owner) {
    timer_.async_wait([this, owner](boost::system::error_code error) {
      const auto self = owner.lock();
      if (error || !self || timer_.expiry() > std::chrono::steady_clock::now()) return;
      passed_ = true;
      self->CancelWork();
      try {
        timer_.expires_after(std::chrono::milliseconds(50));
        Watch(owner);
      } catch (...) {
        self->Break();
        throw;
      }
    });
  }

  boost::asio::steady_timer timer_;
  bool passed_ = false;
};

}  // namespace crema::server
