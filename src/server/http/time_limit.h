// How long what is under way on a connection may take. For connection.h.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

// Behind <utility>, which Asio 1.74 uses and does not include.
#include <boost/asio.hpp>

namespace crema::server {

// Thread safety: the strand of the connection.
class TimeLimit {
 public:
  explicit TimeLimit(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  // Calls owner->CancelWork() then, and soon again, as between two reads of one body there is
  // nothing to cancel.
  template <typename Owner>
  void Start(const std::weak_ptr<Owner>& owner, std::chrono::milliseconds duration) {
    passed_ = false;
    timer_.expires_after(duration);
    Watch(owner);
  }
  // Instead: calls `work`, once. It must not need the connection, which may be gone.
  template <typename Work>
  void Call(std::chrono::milliseconds wait, Work work) {
    timer_.expires_after(wait);
    timer_.async_wait([work = std::move(work)](boost::system::error_code error) {
      if (!error) work();
    });
  }
  void Stop() { timer_.expires_at(std::chrono::steady_clock::time_point::max()); }
  // That of the last Start.
  bool passed() const { return passed_; }

 private:
  template <typename Owner>
  void Watch(const std::weak_ptr<Owner>& owner) {
    timer_.async_wait([this, owner](boost::system::error_code error) {
      const auto self = owner.lock();
      if (error || !self || timer_.expiry() > std::chrono::steady_clock::now()) return;
      passed_ = true;
      self->CancelWork();
      timer_.expires_after(std::chrono::milliseconds(50));
      Watch(owner);
    });
  }

  boost::asio::steady_timer timer_;
  bool passed_ = false;
};

}  // namespace crema::server
