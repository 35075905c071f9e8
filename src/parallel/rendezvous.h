// Barrier for the threads of one run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace crema {

// Thread safety: any number of threads.
class Rendezvous {
 public:
  explicit Rendezvous(int parties) : parties_(parties) {}

  // Waits until all parties have called it. Returns false after Release. All parties of a round get
  // the same result.
  [[nodiscard]] bool Wait();
  // Releases all current and future waits.
  void Release() noexcept;
  bool released() const;

 private:
  const int parties_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  int here_ = 0;
  uint64_t round_ = 0;
  bool released_ = false;
};

}  // namespace crema
