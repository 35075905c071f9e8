// Host-side synchronization of the ranks of one run.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallel/collective.h"

namespace crema {

// Barrier for the threads of one run. Thread safety: any number of threads.
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

// The ranks of one run: threads of this process, or processes (process_ranks.h). Thread safety: one
// thread per rank; Fail and failure any.
class RankGroup {
 public:
  struct Note {
    double number = 0;
    std::string text = {};
  };
  struct Failure {
    int rank = 0;
    std::exception_ptr error;  // null: no failure
  };

  // Requires: at least two ranks, and a `collective` of the same size.
  RankGroup(int ranks, std::unique_ptr<Collective> collective);
  virtual ~RankGroup() = default;
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  int size() const { return size_; }
  // Failures surface at the next Exchange; call it before any collective operation.
  Collective& collective() const { return *collective_; }

  // All ranks call these equally often, in the same order. Each waits for all ranks, and throws
  // kCancelled once a rank has failed. Returns the notes of all ranks, valid until the next call.
  virtual std::span<const Note> Exchange(int rank, Note note) = 0;
  double Mean(int rank, double value);  // the same bits on all ranks
  // Returns the note of rank 0.
  const Note& Lead(int rank, Note note) { return Exchange(rank, std::move(note))[0]; }
  // Tells the others that this rank works, though it keeps them waiting; call it often.
  virtual void KeepAlive() {}

  // Reports that this rank ends with an exception; the others do not wait for it.
  virtual void Fail(int rank, const std::exception_ptr& error) noexcept = 0;
  // Throws kCancelled if a rank has failed: its contribution may be missing.
  virtual void ThrowIfFailed() const = 0;
  // Returns the first failure.
  virtual Failure failure() const = 0;

 protected:
  [[noreturn]] static void FailAsOtherRankFailed();

 private:
  const int size_;
  const std::unique_ptr<Collective> collective_;
};

// Ranks that are threads of this process.
class ThreadRanks final : public RankGroup {
 public:
  ThreadRanks(int ranks, std::unique_ptr<Collective> collective);

  std::span<const Note> Exchange(int rank, Note note) override;
  void Fail(int rank, const std::exception_ptr& error) noexcept override;
  void ThrowIfFailed() const override;
  Failure failure() const override;

 private:
  Rendezvous rendezvous_;
  // Notes of this call and the previous one, which slower ranks may still read.
  std::array<std::vector<Note>, 2> notes_;
  std::vector<size_t> calls_;  // by rank
  mutable std::mutex mutex_;   // guards failure_
  Failure failure_;
};

}  // namespace crema
