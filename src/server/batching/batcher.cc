#include "server/batching/batcher.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "server/model/executable.h"
#include "server/protocol/infer_message.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

SharedFailure GivenUp() { return MakeFailure(Cause::kCancelled, "the client gave the request up"); }
SharedFailure Ended() {
  return MakeFailure(Cause::kUnavailable, "the server ends before the request's turn");
}

bool IsCancelled(const InferRequest& request) { return request.cancelled && *request.cancelled; }

double Seconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double>(duration).count();
}

bool IsAligned(std::string_view bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) == 0;
}

// Copies `samples` samples from sample `first` on if the output counts samples; else all of it.
OutputTensor CopyOutput(const BlobInfo& blob, const ConstTensorView& view, bool batches,
                        int64_t first, int64_t samples, int64_t total) {
  OutputTensor output;
  output.name = blob.name;
  const std::span<const float> values = view.span<float>();
  if (!batches) {
    output.shape = view.shape();
    output.values.assign(values.begin(), values.end());
    return output;
  }
  CREMA_CHECK(view.shape().axes() > 0 && view.shape()[0] == total);
  output.shape = view.shape().With(0, samples);
  const int64_t each = view.shape().count(1);
  const auto begin = values.begin() + first * each;
  output.values.assign(begin, begin + samples * each);
  return output;
}

struct BatchMember {
  const InferRequest* request = nullptr;
  int64_t samples = 1;
};

// An executor with the memory to gather batches in. Thread safety: one thread.
class BatchRun {
 public:
  explicit BatchRun(const Executable& model)
      : model_(model.description()),
        executor_(model.MakeExecutor()),
        staging_(model.description().inputs.size()) {}

  // Returns copies of the outputs that each member requested. Requires: members whose shapes differ
  // only in the number of samples; a single member unless the model batches. Throws what the model
  // throws (Executor::RunUnless).
  std::vector<std::vector<OutputTensor>> Run(std::span<const BatchMember> members,
                                             const std::function<bool()>& cancelled) {
    int64_t total = 0;
    for (const BatchMember& member : members) total += member.samples;
    std::vector<NamedTensor> inputs;
    for (size_t i = 0; i < model_.inputs.size(); ++i) {
      inputs.push_back({model_.inputs[i].name, Gather(i, members, total)});
    }
    executor_->RunUnless(cancelled, inputs);

    std::vector<std::vector<OutputTensor>> answers(members.size());
    int64_t first = 0;
    for (size_t m = 0; m < members.size(); ++m) {
      const auto copy = [&](const BlobInfo& blob) {
        answers[m].push_back(CopyOutput(blob, executor_->Output(blob.name), model_.batches, first,
                                        members[m].samples, total));
      };
      if (members[m].request->outputs.empty()) {
        for (const BlobInfo& blob : model_.outputs) copy(blob);
      }
      for (const RequestedOutput& wanted : members[m].request->outputs) {
        copy(*std::ranges::find(model_.outputs, wanted.name, &BlobInfo::name));
      }
      first += members[m].samples;
    }
    return answers;
  }

  // Runs batches of 1, 2, 4 ... max_batch samples of zeros, and of the crops of an image; only one
  // sample if the model does not batch.
  void Warm(int64_t max_batch) {
    const int64_t most = model_.batches ? max_batch : 1;
    for (int64_t samples = 1; samples <= most; samples *= 2) RunZeros(samples);
    if (model_.preprocessing.ten_crops) RunZeros(CropsOf(model_.preprocessing));
  }

 private:
  void RunZeros(int64_t samples) {
    InferRequest request;
    for (const BlobInfo& blob : model_.inputs) {
      std::vector<int64_t> dims = blob.shape;
      if (model_.batches) dims[0] = samples;
      // Any size is allowed, so the first request plans.
      if (std::ranges::find(dims, -1) != dims.end()) return;
      const Shape shape(dims);
      InputTensor input;
      input.name = blob.name;
      input.shape = shape;
      input.values.resize(static_cast<size_t>(shape.count()));
      request.inputs.push_back(std::move(input));
    }
    const BatchMember member{&request, samples};
    Run(std::span(&member, 1), {});
  }

  ConstTensorView Gather(size_t input, std::span<const BatchMember> members, int64_t samples) {
    const InputTensor& first = members[0].request->inputs[input];
    const DType type = model_.inputs[input].dtype;
    if (members.size() == 1 && (type == DType::kU8 || IsAligned(first.bytes()))) {
      return {first.bytes().data(), first.shape, type};
    }
    const Shape shape = model_.batches ? first.shape.With(0, samples) : first.shape;
    std::vector<float>& staging = staging_[input];
    staging.resize(static_cast<size_t>(shape.count()));
    auto* place = reinterpret_cast<std::byte*>(staging.data());
    for (const BatchMember& member : members) {
      const std::string_view bytes = member.request->inputs[input].bytes();
      std::memcpy(place, bytes.data(), bytes.size());
      place += bytes.size();
    }
    return {staging.data(), shape, DType::kF32};
  }

  const ModelDescription& model_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::vector<float>> staging_;  // by input
};

}  // namespace

// One thread with one executor.
class Batcher::Worker {
 public:
  // `ended`: runs are to end early.
  Worker(const Executable& model, int64_t max_batch, const std::atomic<bool>& ended)
      : run_(model), ended_(ended) {
    run_.Warm(max_batch);
  }

  void Answer(std::span<Item> batch) {
    const Clock::time_point start = Clock::now();
    std::vector<BatchMember> members;
    int64_t samples = 0;
    for (const Item& item : batch) {
      members.push_back({&item.request, item.samples});
      samples += item.samples;
    }
    const auto cancelled = [&] {
      return ended_ || std::ranges::all_of(batch, IsCancelled, &Item::request);
    };
    std::vector<std::vector<OutputTensor>> answers;
    SharedFailure failure;
    try {
      answers = run_.Run(members, cancelled);
    } catch (const Error& error) {
      failure = error.code() != ErrorCode::kCancelled || !cancelled()
                    ? ToFailure(std::current_exception())
                : ended_ ? Ended()
                         : GivenUp();
    } catch (...) {
      failure = ToFailure(std::current_exception());
    }
    if (failure && batch.size() > 1) {
      AnswerAlone(batch);
      return;
    }
    const double compute = Seconds(Clock::now() - start);
    for (size_t i = 0; i < batch.size(); ++i) {
      Item& item = batch[i];
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
  void AnswerAlone(std::span<Item> batch) {
    for (Item& item : batch) Answer({&item, 1});
  }

  BatchRun run_;
  const std::atomic<bool>& ended_;
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
      worker = std::make_unique<Worker>(*model_, options_.max_batch, cancelled_);
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
      worker->Answer(batch);
    } catch (...) {
      // Out of memory outside of the model's run.
      Drop(batch, ToFailure(std::current_exception()));
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

void Batcher::Drop(std::span<Item> items, const SharedFailure& failure) noexcept {
  for (Item& item : items) {
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
  Drop(gone, GivenUp());
}

void Batcher::Cancel() {
  std::deque<Item> dropped;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    dropped.swap(queue_);
  }
  const SharedFailure failure = Ended();
  for (Item& item : dropped) Drop({&item, 1}, failure);
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
      Drop(gone, GivenUp());
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
  batch.reserve(std::min(queue_.size(), static_cast<size_t>(most)));  // before anything changes
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
  if (std::ranges::none_of(queue_, IsCancelled, &Item::request)) return gone;
  gone.reserve(queue_.size());  // nothing has changed if this throws
  for (auto item = queue_.begin(); item != queue_.end();) {
    if (IsCancelled(item->request)) {
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
    Drop(expired, MakeFailure(Cause::kQueueTimeout,
                              "the request waited in the queue for as long as it may"));
    expired.clear();
    lock.lock();
  }
}

}  // namespace crema::server
