// Sums over processes, made by a thread of their own while the caller computes.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/strings.h"
#include "math/blocked_copy.h"
#include "parallel/process_ranks.h"

namespace crema {
namespace {

class ProcessCollective final : public Collective, public RankSums {
 public:
  ProcessCollective(Peers* peers, const ProcessRanksOptions& options)
      : peers_(*peers),
        is_bfloat16_(options.wire == DType::kBF16),
        bucket_(std::max<size_t>(1, options.bucket_bytes / sizeof(float))) {}
  ~ProcessCollective() override { Abort(); }

  void StartSum(int rank, std::span<float> values) override { Start(rank, values, is_bfloat16_); }
  void FinishSums(int) override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return failure_ || (queue_.empty() && !works_); });
    if (failure_) std::rethrow_exception(failure_);
  }
  void Sum(int rank, const ExecContext&, std::span<float> values) override {
    Start(rank, values, false);
    FinishSums(rank);
  }
  void CopyFromFirst(int rank, const ExecContext&, std::span<const TensorView> blobs) override;
  void Abort() noexcept override {
    stop_ = true;
    {
      const std::lock_guard lock(mutex_);
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }
  RankSums* SumsInPass() override { return this; }
  void SumNow(std::span<double> values) override;
  size_t bucket_values() const override { return bucket_; }
  double SumSeconds() const override {
    const std::lock_guard lock(mutex_);
    return seconds_;
  }
  bool IsIdle() const override {
    const std::lock_guard lock(mutex_);
    return queue_.empty() && !works_;
  }
  bool HasFailed() const override {
    const std::lock_guard lock(mutex_);
    return failure_ != nullptr;
  }
  double SecondsInPass() const override { return seconds_in_pass_; }

 private:
  struct Bucket {
    std::span<float> values;
    bool is_bfloat16 = false;  // on the wire
  };
  // A bucket that is being summed.
  struct BucketSum {
    Bucket bucket;
    std::vector<BFloat16> rounded;  // its values
    // Own piece of it, as all ranks have it.
    std::vector<float> pieces;
    std::vector<BFloat16> rounded_pieces;
    std::vector<Peers::Pending> pending;
  };

  void Start(int rank, std::span<float> values, bool is_bfloat16);
  void Work();
  void SumQueued();
  bool Begin(BucketSum* sum);
  void AddAndSend(BucketSum* sum);
  void End(BucketSum* sum);
  template <typename Call>
  static void WithWireType(BucketSum* sum, const Call& call);
  template <typename T>
  std::span<T> PieceOf(std::span<T> values, int rank) const;
  template <typename T>
  void AddPieces(std::span<const T> pieces, std::span<T> own);
  void Copy(int rank, std::span<const TensorView> blobs);
  void SumInPass(std::span<double> values);
  template <typename Call>
  void OutOfStepIfItThrows(const Call& call);

  Peers& peers_;
  const bool is_bfloat16_;  // for sums of StartSum
  const size_t bucket_;     // values summed at a time, at most
  std::array<BucketSum, 3> sums_;
  std::vector<std::string> in_pass_;  // the values of SumNow, by rank
  bool failed_in_pass_ = false;
  double seconds_in_pass_ = 0;
  std::atomic<bool> stop_ = false;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Bucket> queue_;
  bool works_ = false;
  double seconds_ = 0;
  std::exception_ptr failure_;
  std::thread thread_;  // of the rank's thread
};

void ProcessCollective::Start(int rank, std::span<float> values, bool is_bfloat16) {
  CREMA_CHECK(rank == peers_.rank());
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  const std::lock_guard lock(mutex_);
  for (; !values.empty(); values = values.subspan(std::min(bucket_, values.size()))) {
    queue_.push_back({values.first(std::min(bucket_, values.size())), is_bfloat16});
  }
  changed_.notify_all();
}

void ProcessCollective::Work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return !queue_.empty() || stop_; });
    if (stop_) return;
    works_ = true;
    lock.unlock();
    const auto start = std::chrono::steady_clock::now();
    std::exception_ptr failure;
    try {
      SumQueued();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    failure_ = failure;
    works_ = failure != nullptr;  // messages of this sum may still arrive
    changed_.notify_all();
    if (failure) return;
  }
}

template <typename T>
std::span<T> ProcessCollective::PieceOf(std::span<T> values, int rank) const {
  const auto begin = [&](int r) {
    return values.size() * static_cast<size_t>(r) / static_cast<size_t>(peers_.size());
  };
  return values.subspan(begin(rank), begin(rank + 1) - begin(rank));
}

// Each rank sums one piece of each bucket and sends the sums to all. Pieces of the next buckets are
// sent before the sums of one have come, so that links do not wait for the time of a message.
void ProcessCollective::SumQueued() {
  const auto at = [this](size_t i) { return &sums_[i % sums_.size()]; };
  size_t begun = 0;
  size_t added = 0;
  size_t ended = 0;
  do {
    while (begun < ended + sums_.size() && Begin(at(begun))) ++begun;
    if (added < begun) {
      AddAndSend(at(added++));
      if (added < ended + 2) continue;
    }
    if (ended < added) End(at(ended++));
  } while (ended < begun);
}

// Takes the next bucket and sends its pieces. Returns false if there is none.
bool ProcessCollective::Begin(BucketSum* sum) {
  {
    const std::lock_guard lock(mutex_);
    if (queue_.empty()) return false;
    sum->bucket = queue_.front();
    queue_.pop_front();
  }
  const std::span<float> values = sum->bucket.values;
  if (sum->bucket.is_bfloat16) {
    sum->rounded.resize(values.size());
    RoundAll(1, std::ssize(values), values.data(), sum->rounded.data());
  }
  WithWireType(sum, [&]<typename T>(std::span<T> all, std::vector<T>* pieces) {
    const size_t own = PieceOf(all, peers_.rank()).size();
    pieces->resize(own * static_cast<size_t>(peers_.size()));
    for (int r = 0; r < peers_.size(); ++r) {
      if (r == peers_.rank()) continue;
      const auto of_rank = std::span(*pieces).subspan(own * static_cast<size_t>(r), own);
      peers_.Receive(std::as_writable_bytes(of_rank), r, Peers::kPieces, &sum->pending);
      peers_.Send(std::as_bytes(PieceOf(all, r)), r, Peers::kPieces, &sum->pending);
    }
  });
  return true;
}

void ProcessCollective::AddAndSend(BucketSum* sum) {
  peers_.Await(&sum->pending, stop_);
  WithWireType(sum, [&]<typename T>(std::span<T> all, std::vector<T>* pieces) {
    const std::span<T> own = PieceOf(all, peers_.rank());
    AddPieces(std::span<const T>(*pieces), own);
    for (int r = 0; r < peers_.size(); ++r) {
      if (r == peers_.rank()) continue;
      peers_.Receive(std::as_writable_bytes(PieceOf(all, r)), r, Peers::kSums, &sum->pending);
      peers_.Send(std::as_bytes(own), r, Peers::kSums, &sum->pending);
    }
  });
}

void ProcessCollective::End(BucketSum* sum) {
  peers_.Await(&sum->pending, stop_);
  const std::span<float> values = sum->bucket.values;
  if (sum->bucket.is_bfloat16) WidenAll(1, std::ssize(values), sum->rounded.data(), values.data());
}

// Calls with the values of the bucket and the pieces, as they are sent.
template <typename Call>
void ProcessCollective::WithWireType(BucketSum* sum, const Call& call) {
  if (sum->bucket.is_bfloat16) {
    call(std::span(sum->rounded), &sum->rounded_pieces);
  } else {
    call(sum->bucket.values, &sum->pieces);
  }
}

// In the order of the ranks, whichever came first: a run repeats bit for bit.
template <typename T>
void ProcessCollective::AddPieces(std::span<const T> pieces, std::span<T> own) {
  std::array<float, 1024> sums{};
  for (size_t begin = 0; begin < own.size(); begin += sums.size()) {
    const size_t count = std::min(sums.size(), own.size() - begin);
    for (int r = 0; r < peers_.size(); ++r) {
      const T* const added = r == peers_.rank()
                                 ? own.data() + begin
                                 : pieces.data() + static_cast<size_t>(r) * own.size() + begin;
      for (size_t i = 0; i < count; ++i) sums[i] = r == 0 ? float{added[i]} : sums[i] + added[i];
    }
    std::copy_n(sums.begin(), count, own.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

template <typename Call>
void ProcessCollective::OutOfStepIfItThrows(const Call& call) {
  try {
    call();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    failure_ = std::current_exception();
    works_ = true;  // messages of this call may still arrive
    throw;
  }
}

void ProcessCollective::CopyFromFirst(int rank, const ExecContext&,
                                      std::span<const TensorView> blobs) {
  OutOfStepIfItThrows([&] { Copy(rank, blobs); });
}

void ProcessCollective::SumNow(std::span<double> values) {
  const auto start = std::chrono::steady_clock::now();
  OutOfStepIfItThrows([&] { SumInPass(values); });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  seconds_in_pass_ += took.count();
  if (failed_in_pass_) Fail(ErrorCode::kCancelled, "another rank has failed in this pass");
}

// Each rank sends its values to all, and adds those of all in the order of the ranks. A rank that
// has failed sends an empty message instead.
void ProcessCollective::SumInPass(std::span<double> values) {
  const auto self = static_cast<size_t>(peers_.rank());
  in_pass_.resize(static_cast<size_t>(peers_.size()));
  std::vector<Peers::Pending> sent;
  for (int r = 0; r < peers_.size(); ++r) {
    if (r != peers_.rank()) peers_.Send(std::as_bytes(values), r, Peers::kInPass, &sent);
  }
  // From all at once: a rank whose messages are not taken cannot send either.
  std::vector<int> missing;
  for (int r = 0; r < peers_.size(); ++r) {
    if (r != peers_.rank()) missing.push_back(r);
  }
  for (Patience patience(peers_.timeout()); !missing.empty();) {
    peers_.Poll(&sent);
    std::erase_if(missing, [this](int r) {
      std::string& message = in_pass_[static_cast<size_t>(r)];
      if (!peers_.Take(r, Peers::kInPass, &message)) return false;
      failed_in_pass_ = failed_in_pass_ || message.empty();
      return true;
    });
    if (!missing.empty() && !patience.Lasts()) peers_.FailAsSilent(missing);
  }
  peers_.Await(&sent, stop_);
  if (failed_in_pass_) return;
  in_pass_[self].assign(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  std::ranges::fill(values, 0.0);
  for (size_t r = 0; r < in_pass_.size(); ++r) {
    const std::string& message = in_pass_[r];
    if (message.size() != values.size_bytes()) {
      Fail(ErrorCode::kDeviceFailure,
           StrCat(peers_.NameOf(static_cast<int>(r)), " has sent ", message.size(),
                  " bytes where this rank expects ", values.size_bytes(),
                  ": do all ranks have the same version of Crema, the same files and flags?"));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      double value = 0;
      std::memcpy(&value, message.data() + i * sizeof(value), sizeof(value));
      values[i] += value;
    }
  }
}

void ProcessCollective::Copy(int rank, std::span<const TensorView> blobs) {
  constexpr size_t kMost = size_t{16} << 20U;  // of one message: each has the whole timeout
  std::vector<Peers::Pending> pending;
  for (const TensorView& blob : blobs) {
    std::span<std::byte> bytes(static_cast<std::byte*>(blob.raw()), blob.bytes());
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(kMost, bytes.size()))) {
      const auto part = bytes.first(std::min(kMost, bytes.size()));
      if (rank > 0) peers_.Receive(part, 0, Peers::kBlobs, &pending);
      for (int r = 1; rank == 0 && r < peers_.size(); ++r) {
        peers_.Send(part, r, Peers::kBlobs, &pending);
      }
      peers_.Await(&pending, stop_);
    }
  }
}

}  // namespace

std::unique_ptr<Collective> MakeProcessCollective(Peers* peers,
                                                  const ProcessRanksOptions& options) {
  return std::make_unique<ProcessCollective>(peers, options);
}

}  // namespace crema
