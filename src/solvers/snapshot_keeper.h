// Decides when a run writes snapshots, and writes them and the best model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/log.h"
#include "crema.pb.h"
#include "plan/plan.h"
#include "runtime/weights.h"
#include "solvers/epochs.h"
#include "solvers/metric_tracker.h"
#include "solvers/training_observer.h"

namespace crema {

// The weights of a run, in host memory.
struct RunWeights {
  const Plan& plan;
  const Weights& weights;
  const Weights* averaged;  // null without ema_decay

  // Returns the weights that tests and the best model use.
  const Weights& tested() const { return averaged != nullptr ? *averaged : weights; }
};

// Without snapshot_prefix there are no snapshots. Thread safety: one thread.
class SnapshotKeeper {
 public:
  struct Options {
    bool writes = true;         // false: another rank writes the snapshots of this run
    bool may_be_asked = false;  // a signal can request snapshots
    LogSink* log;
    TrainingObserver* observer;
  };
  // `param` must outlive this.
  SnapshotKeeper(const SolverParameter& param, const Options& options)
      : param_(param), options_(options) {}

  bool has_prefix() const { return !param_.snapshot_prefix().empty(); }
  bool CanWrite() const { return options_.writes && has_prefix(); }
  // Returns true if this run writes files without a request.
  bool IsPlanned() const;
  bool IsDue(int64_t iteration, const Epochs& epochs) const;
  // Checks that files can be created. If snapshots are planned, throws kIoFailure or kNotFound;
  // otherwise warns, as a run without requests needs no files.
  void CheckFolder() const;
  // Removes files that killed runs have left, checks that the disk has enough space, as CheckFolder
  // does, and warns about the snapshots of another run. `histories` is that of the update rule;
  // `resumed` is true if this run continues one.
  void Prepare(const Plan& plan, int histories, const Epochs& epochs, int64_t iteration,
               bool resumed) const;

  // Writes a snapshot and removes old ones by snapshot_keep. Throws kInvalidArgument without
  // snapshot_prefix, kDiverged if a weight is not finite, and kIoFailure.
  void Write(const RunWeights& run, int64_t iteration, SolverState state);
  // Calls `write`, which calls Write, unless this iteration has a snapshot. Logs kIoFailure as an
  // error: the disk may have space again at the next snapshot.
  void TryWrite(int64_t iteration, const std::function<void()>& write);
  // Writes the weights of the best test so far. Returns false if they could not be written, and
  // logs the error.
  bool WriteBest(const RunWeights& run, const MetricTracker& best) const;

  // The iteration of the last snapshot, also if another rank has written it; -1: none.
  int64_t last() const { return last_; }
  void set_last(int64_t iteration) { last_ = iteration; }
  // Returns the path of its model; empty if there is no such file.
  std::string LastModel() const;

 private:
  void Check(const std::function<void()>& check) const;
  void WarnAboutOtherRun() const;

  const SolverParameter& param_;
  const Options options_;
  int64_t last_ = -1;
};

}  // namespace crema
