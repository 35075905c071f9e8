// Checks everything that a training run needs, without training.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/error.h"
#include "graph/registry.h"
#include "runtime/weights.h"
#include "solvers/solver_config.h"

namespace crema {

struct CheckOptions {
  int threads = 0;        // 0: all processors
  int64_t samples = 100;  // that each net reads and runs, rounded up to whole batches
  WeightsFiles weights;   // initial weights, instead of those that the solver names
  int64_t memory = -1;    // available bytes; -1: as the machine reports
  std::vector<FieldSetting> settings = {};  // of the nets, for MakeRunConfig
};

struct CheckedNet {
  std::string role;        // "train", "test#0"
  std::string name;        // the name in the net's text
  int64_t layers = 0;      // of this phase
  int64_t parameters = 0;  // elements of parameters
  int64_t batch = 0;       // samples of one forward pass
  int64_t epoch = 0;       // samples in one pass over its data; 0: endless
  int64_t samples = 0;     // read and run without a problem
  double loss = 0;         // of the first batch; 0 before one has run
};

struct CheckReport {
  std::vector<Problem> problems;  // errors that would make training fail
  std::vector<Problem> warnings;  // probable mistakes that do not make it fail
  std::vector<CheckedNet> nets;   // those that could be planned

  std::string policy;      // lr_policy
  int64_t iterations = 0;  // max_iter
  double first_rate = 0;   // learning rates of the first and the last iteration
  double last_rate = 0;

  std::string snapshot_prefix;  // empty: none will be written
  int64_t snapshots = 0;        // on the disk at the end
  int64_t snapshot_bytes = 0;   // of one, weights and state
  int64_t free_bytes = -1;      // on the disk; -1: unknown

  int64_t memory_bytes = 0;      // of all nets, weights, gradients and history
  int64_t available_memory = 0;  // 0: unknown

  double seconds = 0;  // duration of the check
};

// Reads the nets of a solver, plans all of them, opens their sources and runs `samples` samples
// forward through each; matches the weights, walks the schedule, and compares disk and memory with
// the needs. Continues after a problem if possible. Throws only errors that are not about the run
// (kInternal, out of memory). Writes only a temporary file beside snapshot_prefix.
CheckReport CheckRun(const SolverFile& solver, const Registry& registry,
                     const CheckOptions& options);

// Returns 0 without problems; 2 if one is about text, flags or weights; else 3: data or disk.
int ExitCode(const CheckReport& report);

}  // namespace crema
