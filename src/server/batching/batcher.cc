#include "server/batching/batcher.h"

#include <algorithm>
#include <bit>
#include <new>
#include <utility>

#include "core/strings.h"
#include "server/batching/batch_run.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

RequestError GivenUp() { return {Cause::kCancelled, "the client gave the request up"}; }

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

// One thread with one executor.
class Batcher::Worker {
 public:
  Worker(const Executable& model, int64_t max_batch) : run_(model) { run_.Warm(max_batch); }

  void Answer(std::vector<Item>* batch) {
    const Clock::time_point start = Clock::now();
    std::vector<BatchMember> members;
    int64_t samples = 0;
    for (const Item& item : *batch) {
      members.push_back({&item.request, item.samples});
      samples += item.samples;
    }
    std::vector<std::vector<OutputTensor>> answers;
    std::optional<RequestError> failure;
    try {
      answers = run_.Run(members);
    } catch (...) {
      failure = ToRequestError(std::current_exception());
    }
    if (failure && batch->size() > 1) {
      AnswerAlone(batch);
      return;
    }
    const double compute = Seconds(Clock::now() - start);
    for (size_t i = 0; i < batch->size(); ++i) {
      Item& item = (*batch)[i];
      InferOutcome outcome;
      if (!failure) outcome.outputs = std::move(answers[i]);
      outcome.failure = failure;
      outcome.queue_seconds = Seconds(start - item.enqueued);
      outcome.compute_seconds = compute;
      outcome.samples = item.samples;
      outcome.batch_samples = i == 0 ? samples : 0;
      Finish(&item, std::move(outcome));
    }
  }

 private:
  // Runs each request alone, so that a bad one does not fail the others of its batch.
  void AnswerAlone(std::vector<Item>* batch) {
    for (Item& item : *batch) {
      std::vector<Item> alone(1);
      std::swap(alone[0], item);
      Answer(&alone);
    }
  }

  BatchRun run_;
};

Batcher::Batcher(std::shared_ptr<const Executable> model, const BatcherOptions& options)
    : model_(std::move(model)), options_(options) {
  CREMA_CHECK(options_.max_batch > 0 && options_.instances > 0);
  try {
    StartWorkers();
    threads_.emplace_back([this] { WatchDeadlines(); });
  } catch (...) {
    StopThreads();
    throw;
  }
}

Batcher::~Batcher() { StopThreads(); }

void Batcher::StartWorkers() {
  std::mutex mutex;
  std::condition_variable ready;
  int warm = 0;
  std::exception_ptr failure;
  const auto run = [&, this] {
    std::unique_ptr<Worker> worker;
    std::exception_ptr problem;
    try {
      worker = std::make_unique<Worker>(*model_, options_.max_batch);
    } catch (...) {
      problem = std::current_exception();
    }
    {
      const std::lock_guard lock(mutex);
      ++warm;
      if (problem) failure = problem;
      ready.notify_one();
    }
    if (!worker) return;
    Serve(worker.get());
  };
  std::exception_ptr refused;
  try {
    for (int i = 0; i < options_.instances; ++i) threads_.emplace_back(run);
  } catch (...) {
    refused = std::current_exception();
  }
  // Running threads refer to the variables above until they are warm.
  std::unique_lock lock(mutex);
  ready.wait(lock, [&] { return warm == std::ssize(threads_); });
  if (refused) std::rethrow_exception(refused);
  if (failure) std::rethrow_exception(failure);
}

void Batcher::Serve(Worker* worker) {
  for (;;) {
    std::vector<Item> batch;
    try {
      batch = NextBatch();
      if (batch.empty()) return;
      worker->Answer(&batch);
    } catch (...) {
      // Out of memory outside of the model's run.
      Drop(&batch, ToRequestError(std::current_exception()));
    }
  }
}

void Batcher::Finish(Item* item, InferOutcome outcome) noexcept {
  const InferDone done = std::exchange(item->done, nullptr);
  try {
    if (done) done(std::move(outcome));
  } catch (...) {
    // The waiting caller notices the destruction of `done`.
  }
}

void Batcher::Drop(std::vector<Item>* items, const RequestError& failure) noexcept {
  for (Item& item : *items) {
    InferOutcome outcome;
    outcome.queue_seconds = Seconds(Clock::now() - item.enqueued);
    outcome.failure = failure;
    Finish(&item, std::move(outcome));
  }
}

void Batcher::StopThreads() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  mates_.notify_all();
  deadlines_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void Batcher::Submit(InferRequest request, int64_t samples, InferDone done) {
  Item item;
  item.samples = samples;
  item.enqueued = Clock::now();
  int64_t timeout = options_.queue_timeout_us;
  if (request.timeout_us.value_or(0) > 0) {
    timeout = timeout > 0 ? std::min(timeout, *request.timeout_us) : *request.timeout_us;
  }
  constexpr int64_t kDay = int64_t{86400} * 1000000;
  item.deadline = timeout > 0 ? item.enqueued + std::chrono::microseconds(std::min(timeout, kDay))
                              : Clock::time_point::max();
  item.request = std::move(request);
  item.done = std::move(done);

  std::vector<Item> gone;
  std::unique_lock lock(mutex_);
  if (stopping_ || cancelled_) Refuse(Cause::kUnavailable, "the model is being unloaded");
  if (queue_.size() >= options_.max_queue) gone = TakeCancelled();
  if (queue_.size() >= options_.max_queue) {
    Refuse(Cause::kQueueFull,
           StrCat("the queue of the model is full: ", options_.max_queue, " requests wait"));
  }
  if (item.deadline < next_deadline_) {
    next_deadline_ = item.deadline;
    deadlines_.notify_one();
  }
  queue_.push_back(std::move(item));
  if (gathering_) {
    mates_.notify_one();
  } else {
    work_.notify_one();
  }
  lock.unlock();
  Drop(&gone, GivenUp());
}

void Batcher::Cancel() {
  std::deque<Item> dropped;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    dropped.swap(queue_);
  }
  for (Item& item : dropped) {
    InferOutcome outcome;
    outcome.failure.emplace(Cause::kUnavailable, "the server ends before the request's turn");
    Finish(&item, std::move(outcome));
  }
}

size_t Batcher::waiting() const {
  const std::lock_guard lock(mutex_);
  return queue_.size();
}

bool Batcher::Together(const Item& a, const Item& b) const {
  if (!model_->description().batches) return false;
  for (size_t i = 0; i < a.request.inputs.size(); ++i) {
    const Shape& x = a.request.inputs[i].shape;
    const Shape& y = b.request.inputs[i].shape;
    if (!std::ranges::equal(x.dims().subspan(1), y.dims().subspan(1))) return false;
  }
  return true;
}

int64_t Batcher::MatesOfFirst() const {
  int64_t samples = 0;
  for (const Item& item : queue_) {
    if (Together(queue_.front(), item)) samples += item.samples;
  }
  return samples;
}

std::vector<Batcher::Item> Batcher::NextBatch() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [&] { return (!queue_.empty() && !gathering_) || stopping_; });
    if (queue_.empty() || gathering_) {
      if (queue_.empty()) return {};
      // Stopping: the gathering worker takes one batch and asks for the next.
      work_.wait(lock, [&] { return !gathering_; });
      continue;
    }
    gathering_ = true;
    while (options_.max_delay_us > 0 && model_->description().batches && !stopping_ &&
           !queue_.empty() && MatesOfFirst() < options_.max_batch) {
      const auto until = queue_.front().enqueued + std::chrono::microseconds(options_.max_delay_us);
      if (mates_.wait_until(lock, until) == std::cv_status::timeout && !queue_.empty() &&
          Clock::now() >=
              queue_.front().enqueued + std::chrono::microseconds(options_.max_delay_us)) {
        break;
      }
    }
    gathering_ = false;
    std::vector<Item> gone = TakeCancelled();
    std::vector<Item> batch = TakeBatch();
    if (!queue_.empty() || stopping_) work_.notify_all();
    if (!gone.empty()) {
      lock.unlock();
      Drop(&gone, GivenUp());
      gone.clear();
      lock.lock();
    }
    if (!batch.empty()) return batch;
  }
}

std::vector<Batcher::Item> Batcher::TakeBatch() {
  std::vector<Item> batch;
  if (queue_.empty()) return batch;
  const int64_t there = std::min(MatesOfFirst(), options_.max_batch);
  const auto most =
      there < 1 ? int64_t{1} : static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(there)));
  batch.push_back(std::move(queue_.front()));
  queue_.pop_front();
  int64_t samples = batch[0].samples;
  for (auto item = queue_.begin(); item != queue_.end() && samples < most;) {
    if (samples + item->samples <= most && Together(batch[0], *item)) {
      samples += item->samples;
      batch.push_back(std::move(*item));
      item = queue_.erase(item);
    } else {
      ++item;
    }
  }
  return batch;
}

std::vector<Batcher::Item> Batcher::TakeExpired(Clock::time_point now) {
  std::vector<Item> expired;
  expired.reserve(queue_.size());  // nothing has changed if this throws
  next_deadline_ = Clock::time_point::max();
  for (auto item = queue_.begin(); item != queue_.end();) {
    if (item->deadline <= now) {
      expired.push_back(std::move(*item));
      item = queue_.erase(item);
    } else {
      next_deadline_ = std::min(next_deadline_, item->deadline);
      ++item;
    }
  }
  return expired;
}

std::vector<Batcher::Item> Batcher::TakeCancelled() {
  std::vector<Item> gone;
  for (auto item = queue_.begin(); item != queue_.end();) {
    const auto& cancelled = item->request.cancelled;
    if (cancelled && *cancelled) {
      gone.push_back(std::move(*item));
      item = queue_.erase(item);
    } else {
      ++item;
    }
  }
  return gone;
}

void Batcher::WatchDeadlines() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (next_deadline_ == Clock::time_point::max()) {
      deadlines_.wait(lock);
    } else {
      deadlines_.wait_until(lock, next_deadline_);
    }
    const Clock::time_point now = Clock::now();
    if (now < next_deadline_) continue;
    std::vector<Item> expired;
    try {
      expired = TakeExpired(now);
    } catch (const std::bad_alloc&) {
      deadlines_.wait_for(lock, std::chrono::milliseconds(10));
      continue;
    }
    lock.unlock();
    try {
      Drop(&expired, RequestError(Cause::kQueueTimeout,
                                  "the request waited in the queue for as long as it may"));
    } catch (const std::bad_alloc&) {
      // Dropped without an answer; the waiting caller notices.
    }
    expired.clear();
    lock.lock();
  }
}

}  // namespace crema::server
