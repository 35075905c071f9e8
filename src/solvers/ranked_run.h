// One rank of a run on several devices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "parallel/rank_group.h"
#include "runtime/epoch_runner.h"
#include "runtime/session.h"
#include "solvers/gradient_buckets.h"
#include "solvers/training_observer.h"

namespace crema {

// All ranks make the same calls in the same order, and each waits for the others; once a rank has
// failed, the calls throw kCancelled. Without a group the run is on one device and is rank 0.
// Thread safety: one thread a rank.
class RankedRun {
 public:
  // `group` may be null; it must outlive this.
  RankedRun(RankGroup* group, int rank) : group_(group), rank_(rank) {}

  int count() const { return group_ == nullptr ? 1 : group_->size(); }
  bool several() const { return group_ != nullptr; }
  bool is_first() const { return rank_ == 0; }
  // Returns `step`, a number of forward passes, changed so that each rank draws other random
  // numbers.
  uint64_t StepOf(uint64_t step) const;

  // Copies `blobs`, of device memory of the session, from rank 0. Requires: all ranks are at the
  // same iteration.
  void CopyFromFirst(int64_t iteration, const Session& train,
                     const std::vector<TensorView>& blobs) const;
  // Returns what layers of the training net sum with in their passes; null: nothing.
  RankSums* SumsInPass() const { return several() ? group_->collective().SumsInPass() : nullptr; }
  double Mean(double loss) const;
  // Lets the next backward pass, the last one before SumGradients, start the sums of gradients that
  // are complete, if the ranks can do so.
  void SumDuringBackward(Session* train);
  // Sums the gradients of the session over all ranks. Returns the mean of their losses. `seconds`
  // is the time of this rank's passes. Replaces `asked` by the largest of all ranks.
  double SumGradients(double loss, Session* train, double seconds, int* asked);
  // Returns the seconds that sums in the middle of passes have taken so far.
  double SecondsInPass() const { return several() ? group_->collective().SecondsInPass() : 0; }
  // Returns the times of the last iteration whose gradients were summed.
  const RankTimes& times() const { return times_; }
  // Returns the largest number of all ranks.
  int Most(int own) const;
  // Calls `decide` in rank 0 alone, and returns its result in all ranks.
  RankGroup::Note Lead(const std::function<RankGroup::Note()>& decide) const;
  RankPlace own() const { return {rank_, count()}; }
  // Exchanges texts. Returns those of all ranks, in their order. Requires several.
  std::vector<std::string> Share(std::string own) const;
  // Throws kCancelled if any rank has failed.
  void ThrowIfFailed() const;
  // See RankGroup.
  void KeepAlive() const;

  // Sets the running statistics to their means over the ranks, if the ranks are processes.
  void AverageStatistics(const Session& train) const;
  // Exchanges the positions of data readers: rank 0 then knows those of all ranks.
  // Returns false if the ranks on CPUs do not have the same parameters.
  [[nodiscard]] bool GatherPositions(const Session& train);
  void SavePositions(const Session& train, SolverState* state) const;
  // Restores the positions of this rank. If the run had another number of ranks, warns, and
  // distributes the samples evenly.
  void RestorePositions(const SolverState& state, Session* train, LogSink* log) const;

 private:
  void AwaitOthersQueued(const Session& train) const;

  RankGroup* group_;
  int rank_;
  SolverState others_;
  RankTimes times_;
  double sum_seconds_ = 0;                    // of the collective, when times_ was set
  std::unique_ptr<GradientBuckets> buckets_;  // null: sums come after the backward pass
};

}  // namespace crema
