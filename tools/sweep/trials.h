// The trials of a sweep: what each runs, and which have ended.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "report/run_folder.h"
#include "sweep/axis.h"

namespace crema::tools {

// One stretch of training of all remaining trials.
struct Round {
  int64_t trials = 0;  // trials that take part
  int64_t length = 0;  // iterations or epochs from the start; 0: as the solver says
};

// Returns the rounds of successive halving (Jamieson and Talwalkar, AISTATS 2016): one of `keep`
// trials continues from each round, with `keep` times the length; the last has `longest`. Lengths
// before it are rounded up to a multiple of `step`, at which tests are made. Requires: trials >= 1,
// keep >= 2, longest >= 1, step >= 1.
std::vector<Round> HalvingRounds(int64_t trials, int64_t keep, int64_t longest, int64_t step);

// The end of one training.
struct TrialEnd {
  size_t trial = 0;  // index
  int64_t length = 0;
  int exit_code = 0;
};

// The values of the metric in the record of a run.
struct Score {
  double best = std::numeric_limits<double>::quiet_NaN();  // NaN: none is finite
  double best_iteration = 0;
  double last = std::numeric_limits<double>::quiet_NaN();
};

// How trials are compared.
struct Metric {
  std::string name;  // output of the first test net, or "loss" for the smoothed training loss
  bool is_smaller_better = false;
};

// Returns the metric of `name`; "" takes "accuracy", else the first of the tested outputs, else the
// loss. Smaller is better for names with "loss" or "err". Throws kInvalidArgument for an output
// that the tests do not have; the message lists those that they have.
Metric ChooseMetric(const std::vector<std::string>& tested, const std::string& name);

// Returns the values up to now. Throws as ReadRun does.
Score ScoreOfRun(const std::string& folder, const Metric& metric);

// The record of a sweep, so that it can be resumed: `sweep.json` says what is searched, and
// `trials.csv` has a line for each training that ended. Locks the folder against other processes.
// Thread safety: one thread.
class SweepRecord {
 public:
  // Reads the record in `folder`, or begins one. Throws kInvalidArgument if the folder holds
  // another sweep or other files, or if another process runs this sweep.
  SweepRecord(std::string folder, const std::string& definition);

  const std::vector<TrialEnd>& ends() const { return ends_; }
  // Returns null if this training has not ended.
  const TrialEnd* Find(size_t trial, int64_t length) const;
  void Add(const TrialEnd& end);

  // "FOLDER/trial_007"; `trial` is an index.
  std::string FolderOf(size_t trial) const;

 private:
  void Lock();

  std::string folder_;
  std::vector<TrialEnd> ends_;
  FileLock lock_;
};

}  // namespace crema::tools
