// One rank of a run on several devices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/log.h"
#include "crema.pb.h"
#include "parallel/rank_group.h"
#include "runtime/session.h"
#include "solvers/gradient_buckets.h"

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
  double Mean(double loss) const;
  // Lets the next backward pass, the last one before SumGradients, start the sums of gradients that
  // are complete, if the ranks can do so.
  void SumDuringBackward(Session* train);
  // Sums the gradients of the session over all ranks. Returns the mean of their losses.
  double SumGradients(double loss, Session* train);
  // Calls `decide` in rank 0 alone, and returns its result in all ranks.
  RankGroup::Note Lead(const std::function<RankGroup::Note()>& decide) const;
  // Throws kCancelled if any rank has failed.
  void ThrowIfFailed() const;
  // See RankGroup.
  void KeepAlive() const;

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
  std::unique_ptr<GradientBuckets> buckets_;  // null: sums come after the backward pass
};

}  // namespace crema
