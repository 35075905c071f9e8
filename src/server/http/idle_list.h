// Connections that wait for a request or for the rest of its head. The oldest may be closed for a
// new one.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace crema::server {

// Thread safety: any number of threads.
class IdleList {
 public:
  using Close = std::function<void()>;

  // Returns the number for Remove(). Until then, `close` may be called once, on any thread.
  uint64_t Add(Close close) {
    const std::lock_guard lock(mutex_);
    idle_.emplace(++last_, std::move(close));
    return last_;
  }
  void Remove(uint64_t number) {
    const std::lock_guard lock(mutex_);
    idle_.erase(number);
  }
  // Closes the connection that has waited longest. Returns false if there is none.
  bool CloseOldest() {
    Close close;
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) return false;
      close = std::move(idle_.begin()->second);
      idle_.erase(idle_.begin());
    }
    close();
    return true;
  }

 private:
  std::mutex mutex_;
  std::map<uint64_t, Close> idle_;  // ascending with time
  uint64_t last_ = 0;
};

// Entry of one connection in such a list. Thread safety: the thread of the connection.
class IdlePlace {
 public:
  explicit IdlePlace(IdleList& list) : list_(list) {}
  ~IdlePlace() { Leave(); }
  IdlePlace(const IdlePlace&) = delete;
  IdlePlace& operator=(const IdlePlace&) = delete;

  bool taken() const { return number_ != 0; }
  // Like IdleList::Add; does nothing if it has an entry.
  void Take(IdleList::Close close) {
    if (!taken()) number_ = list_.Add(std::move(close));
  }
  void Leave() {
    if (taken()) list_.Remove(std::exchange(number_, 0));
  }

 private:
  IdleList& list_;
  uint64_t number_ = 0;
};

}  // namespace crema::server
