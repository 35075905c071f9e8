// Processes items with several threads, keeping their order.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace crema::tools {

// Starts tasks in the order of submission; the destructor drops those not started. Thread safety:
// one thread submits tasks.
class WorkerThreads {
 public:
  // Throws std::system_error if a thread cannot be started.
  explicit WorkerThreads(int threads);
  ~WorkerThreads() { Stop(); }
  WorkerThreads(const WorkerThreads&) = delete;
  WorkerThreads& operator=(const WorkerThreads&) = delete;

  void Run(std::function<void()> task);
  size_t size() const { return threads_.size(); }

 private:
  void Stop();
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::deque<std::function<void()>> tasks_;
  std::vector<std::thread> threads_;
};

// read() -> std::optional<In>, nothing at the end; work(In) -> Out; write(Out). This thread calls
// `read` and `write`, in order; the workers call `work` concurrently. Keeps a few items per worker
// in flight. An exception of any of the three ends the loop after all earlier items were written.
template <typename Read, typename Work, typename Write>
void RunInOrder(int threads, Read read, Work work, Write write) {
  using In = typename std::invoke_result_t<Read>::value_type;
  using Out = std::invoke_result_t<Work, In>;
  constexpr size_t kWaitingPerThread = 4;
  WorkerThreads workers(threads);
  std::deque<std::future<Out>> waiting;
  bool more = true;
  while (true) {
    while (more && waiting.size() < kWaitingPerThread * workers.size()) {
      std::promise<Out> failed;
      try {
        std::optional<In> item = read();
        more = item.has_value();
        if (!more) break;
        auto shared = std::make_shared<In>(std::move(*item));
        auto task = std::make_shared<std::packaged_task<Out()>>(
            [&work, shared] { return work(std::move(*shared)); });
        waiting.push_back(task->get_future());
        workers.Run([task] { (*task)(); });
      } catch (...) {  // after the waiting items
        more = false;
        failed.set_exception(std::current_exception());
        waiting.push_back(failed.get_future());
      }
    }
    if (waiting.empty()) return;
    std::future<Out> next = std::move(waiting.front());
    waiting.pop_front();
    write(next.get());
  }
}

}  // namespace crema::tools
