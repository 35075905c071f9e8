// Where threads of one run wait for each other.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace crema {

// Thread safety: any number of threads.
class Rendezvous {
 public:
  explicit Rendezvous(int parties) : parties_(parties) {}

  // Waits until all parties have called it. False: somebody will not come (Release). Of one round
  // all get the same answer.
  [[nodiscard]] bool Wait();
  // From now on nobody is waited for.
  void Release() noexcept;
  bool released() const;

 private:
  const int parties_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int here_ = 0;
  uint64_t round_ = 0;
  bool released_ = false;
};

}  // namespace crema
