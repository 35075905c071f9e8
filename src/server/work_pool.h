// Threads for slow work: images, long JSON, loading models.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace crema::server {

// Thread safety: any number of threads.
class WorkPool {
 public:
  // Throws std::system_error when the system refuses a thread.
  WorkPool(int threads, size_t most_waiting);
  ~WorkPool() { Stop(); }
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Finishes waiting work and ends the threads. Call it from one thread.
  void Stop();
  // An exception of `work` is ignored. Throws kQueueFull, and kUnavailable after Stop().
  void Submit(std::function<void()> work);
  // The same without kQueueFull, for the rest of work on a request that was accepted: refusing it
  // would waste what was computed.
  void SubmitAccepted(std::function<void()> work);

 private:
  void Add(std::function<void()> work, size_t most_waiting);
  void Run();

  const size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace crema::server
