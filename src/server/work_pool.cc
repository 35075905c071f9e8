#include "server/work_pool.h"

#include <limits>
#include <utility>

#include "server/request_error.h"

namespace crema::server {

WorkPool::WorkPool(int threads, size_t most_waiting) : most_waiting_(most_waiting) {
  try {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  } catch (...) {
    Stop();
    throw;
  }
}

void WorkPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkPool::Submit(std::function<void()> work) { Add(std::move(work), most_waiting_); }

void WorkPool::SubmitAccepted(std::function<void()> work) {
  Add(std::move(work), std::numeric_limits<size_t>::max());
}

void WorkPool::Add(std::function<void()> work, size_t most_waiting) {
  const std::lock_guard lock(mutex_);
  if (stopping_) Refuse(Cause::kUnavailable, "the server ends");
  if (waiting_.size() >= most_waiting) Refuse(Cause::kQueueFull, "too much waits for work");
  waiting_.push_back(std::move(work));
  wake_.notify_one();
}

void WorkPool::Run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    try {
      work();
    } catch (...) {
      // The work ends without an answer, which the waiting caller notices; the thread continues.
    }
    work = nullptr;
    lock.lock();
  }
}

}  // namespace crema::server
