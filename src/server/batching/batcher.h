// Dynamic batching: waiting requests are run together.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "server/model/executable.h"
#include "server/protocol/infer_message.h"
#include "server/request_error.h"

namespace crema::server {

struct BatcherOptions {
  int64_t max_batch = 16;    // most samples per batch
  int64_t max_delay_us = 0;  // how long the first request of a batch waits for others; 0: no delay
  int instances = 1;         // threads that run the model, each with its own memory
  size_t max_queue = 256;    // waiting requests
  int64_t queue_timeout_us = 0;  // 0: no limit
};

struct InferOutcome {
  std::vector<OutputTensor> outputs;  // the requested ones, in their order
  SharedFailure failure;              // instead of outputs
  double queue_seconds = 0;
  double compute_seconds = 0;  // for the whole batch
  int64_t samples = 0;
  int64_t batch_samples = 0;  // of the batch, for its first member; else 0
};

// Called once per accepted request on a thread of the batcher. Must not block, throw or destroy the
// batcher.
using InferDone = std::function<void(InferOutcome)>;

// If the model batches, requests of equal shapes run together, up to max_batch samples. Batch sizes
// are powers of two if possible, so that few plans suffice; each of them is run once before the
// first request. The requests of a failed batch are run again one by one. Thread safety: any number
// of threads.
class Batcher {
 public:
  // Makes and warms the executors. Throws what they throw.
  Batcher(std::shared_ptr<const Executable> model, const BatcherOptions& options);
  ~Batcher();  // answers all waiting requests
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Requires: FitRequest() returned `samples`. Throws kQueueFull without calling `done` if the
  // queue is full.
  void Submit(InferRequest request, int64_t samples, InferDone done);
  // Answers waiting requests with kUnavailable and refuses later ones the same way. A run in
  // several steps ends after the current one (Executor::RunUnless).
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
  // Waits for a batch; returns an empty one on stop.
  std::vector<Item> NextBatch();
  std::vector<Item> TakeBatch();
  int64_t MatesOfFirst() const;
  bool Together(const Item& a, const Item& b) const;
  void WatchDeadlines();
  std::vector<Item> TakeExpired(Clock::time_point now);
  std::vector<Item> TakeCancelled();
  void Serve(Worker* worker);
  // Calls `done` once and destroys it. Exceptions do not end the thread.
  static void Finish(Item* item, InferOutcome outcome) noexcept;
  static void Drop(std::span<Item> items, const SharedFailure& failure) noexcept;

  const std::shared_ptr<const Executable> model_;
  const BatcherOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;       // for an idle worker
  std::condition_variable mates_;      // for the worker that gathers a batch
  std::condition_variable deadlines_;  // for the thread that watches deadlines
  std::deque<Item> queue_;
  Clock::time_point next_deadline_ = Clock::time_point::max();
  bool gathering_ = false;
  bool stopping_ = false;
  std::atomic<bool> cancelled_ = false;  // changes under the mutex
  std::vector<std::thread> threads_;
};

}  // namespace crema::server
