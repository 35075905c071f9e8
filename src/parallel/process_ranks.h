// The ranks of a run that are processes, on one or more machines.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "parallel/peers.h"
#include "parallel/rank_group.h"
#include "parallel/transport.h"

namespace crema {

struct ProcessRanksOptions {
  double timeout = 300;                    // seconds until a rank that does not answer has failed
  DType wire = DType::kF32;                // type in which StartSum sends; or kBF16
  size_t bucket_bytes = size_t{4} << 20U;  // of gradients, summed at a time
};

// Returns sums in f32 in the order of the ranks, so that a run on as many ranks repeats bit for
// bit. On a wire of bfloat16 these are sums of rounded values, also of the own ones, and are
// rounded. For host memory only. `peers` must outlive it.
std::unique_ptr<Collective> MakeProcessCollective(Peers* peers, const ProcessRanksOptions& options);

// The rank of this process, and its view of the others. All calls are those of that rank; each
// waits for the timeout at most. Thread safety: one thread.
class ProcessRanks final : public RankGroup {
 public:
  // All ranks construct it at the same time. `transport` must outlive this.
  static std::unique_ptr<ProcessRanks> Make(Transport& transport,
                                            const ProcessRanksOptions& options);
  ~ProcessRanks() override;

  int rank() const { return peers_->rank(); }
  const Peers& peers() const { return *peers_; }

  // Throws kDeviceFailure also if a rank does not answer.
  std::span<const Note> Exchange(int rank, Note note) override;
  void KeepAlive() override;
  // Tells the others. Afterwards failure() is the same in all ranks, unless they are out of step:
  // an Error that names the ranks.
  void Fail(int rank, const std::exception_ptr& error) noexcept override;
  void ThrowIfFailed() const override;
  Failure failure() const override { return failure_; }
  // Returns true if this rank cannot meet the others any more: only Transport::Abort ends them.
  bool out_of_step() const { return out_of_step_; }
  // Returns after all ranks have called it, also after a failure, unless they are out of step.
  void MeetAtEnd();

 private:
  ProcessRanks(std::unique_ptr<Peers> peers, const ProcessRanksOptions& options);
  void Share(const std::string& own);  // fills messages_ and notes_, and finds failures
  void Gather(const std::string& own);
  void Ask(const std::string& own);
  void TakeNotes();
  void Read(int from, const std::function<void()>& read) const;
  void TakeFailures(const std::vector<int>& codes);
  void FailAlone(const std::exception_ptr& error);
  std::exception_ptr WithRanks(const std::vector<std::pair<int, Error>>& errors) const;

  const std::unique_ptr<Peers> peers_;
  std::vector<std::string> messages_;  // of all ranks, encoded
  std::vector<Note> notes_;
  std::vector<Peers::Pending> signs_;  // of life, being sent
  std::chrono::steady_clock::time_point last_sign_;
  bool out_of_step_ = false;
  Failure failure_;
};

}  // namespace crema
