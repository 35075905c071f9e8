// Requests that wait are put together and run as one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "server/model/executable.h"
#include "server/protocol/infer_message.h"
#include "server/request_error.h"

namespace crema::server {

struct BatcherOptions {
  int64_t max_batch = 16;    // samples that run as one
  int64_t max_delay_us = 0;  // that the first of a batch waits for mates; 0: takes what is there
  int instances = 1;         // threads that run the model, each with memory of its own
  size_t max_queue = 256;    // requests that wait
  int64_t queue_timeout_us = 0;  // 0: a request waits as long as it takes
};

struct InferOutcome {
  std::vector<OutputTensor> outputs;    // those asked for, in that order
  std::optional<RequestError> failure;  // instead of outputs
  double queue_seconds = 0;
  double compute_seconds = 0;  // of the whole batch
  int64_t samples = 0;
  int64_t batch_samples = 0;  // of the batch; 0 but for its first member
};

// Called once for each request that was accepted, on a thread of the batcher; must not block, throw
// or destroy the batcher.
using InferDone = std::function<void(InferOutcome)>;

// Where a model batches, requests of equal extents run together, up to max_batch samples. Sizes of
// batches are powers of two where the requests allow it, so that few plans are enough; all of them
// ran once before the first request. A batch that fails is run again one request at a time.
// Thread safety: any number of threads.
class Batcher {
 public:
  // Makes the executors and warms them. Throws what they throw.
  Batcher(std::shared_ptr<const Executable> model, const BatcherOptions& options);
  ~Batcher();  // answers all that wait
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Requires: FitRequest() returned `samples`. Throws kQueueFull at once where the queue is full;
  // `done` is not called then.
  void Submit(InferRequest request, int64_t samples, InferDone done);
  // Those that wait are answered with kUnavailable, later ones refused so.
  void Cancel();
  size_t waiting() const;
  const BatcherOptions& options() const { return options_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Item {
    InferRequest request;
    int64_t samples = 1;
    InferDone done;
    Clock::time_point enqueued;
    Clock::time_point deadline;
  };
  class Worker;

  void StartWorkers();
  void StopThreads();
  // Waits; empty when it is time to stop.
  std::vector<Item> NextBatch();
  std::vector<Item> TakeBatch();
  int64_t MatesOfFirst() const;
  bool Together(const Item& a, const Item& b) const;
  void WatchDeadlines();
  std::vector<Item> TakeExpired(Clock::time_point now);
  std::vector<Item> TakeCancelled();
  void Serve(Worker* worker);
  // Nothing that `done` throws ends a thread; called once, then `done` is gone.
  static void Finish(Item* item, InferOutcome outcome) noexcept;
  static void Drop(std::vector<Item>* items, const RequestError& failure) noexcept;

  const std::shared_ptr<const Executable> model_;
  const BatcherOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;       // for a worker that has nothing to do
  std::condition_variable mates_;      // for the worker that waits for mates of the first
  std::condition_variable deadlines_;  // for the thread that watches them
  std::deque<Item> queue_;
  Clock::time_point next_deadline_ = Clock::time_point::max();
  bool gathering_ = false;
  bool stopping_ = false;
  bool cancelled_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace crema::server
