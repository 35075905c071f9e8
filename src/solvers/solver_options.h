// Options of a training run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "core/log.h"
#include "parallel/rank_group.h"
#include "plan/plan.h"
#include "runtime/compute_device.h"
#include "solvers/device_update.h"
#include "solvers/training_observer.h"

namespace crema {

// A request to a run, polled between two iterations, two passes of one (iter_size) or two test
// batches. A stop between two passes gives the iteration up: the run is then as before it.
enum class Request { kNone, kSnapshot, kStop };

struct SolverOptions {
  int threads = 0;  // 0: all processors
  // Computes the same bytes on any number of threads: all work is cut into kDeterministicPieces.
  // The constructor names what cannot be deterministic in its error.
  bool deterministic = false;
  LogSink* log = nullptr;
  TrainingObserver* observer = nullptr;
  std::function<Request()> poll;  // empty: no requests
  // Seed of the run; unset: random_seed of the solver, or a random one if that is negative. To
  // resume bit for bit, give the seed of the state.
  std::optional<uint64_t> seed;
  ComputeDevice device = {};             // of all nets of the run
  DeviceUpdateMaker device_update = {};  // updates weights on a GPU; empty: as built
  // All ranks of a run on several devices (parallel_run.h), and the rank of this solver. Only rank
  // 0 tests and writes snapshots. Must outlive the solver. Null: one device.
  RankGroup* ranks = nullptr;
  int rank = 0;
  // The program that feeds batches (Input, MemoryData) repeats the same one: it is still available
  // if it later turns out to have broken an iteration, so no iteration waits for its loss.
  bool same_batch = false;
  // Options of all plans of the run, which sets threads, backward, deterministic and device itself.
  PlanOptions plan = {};
};

inline constexpr int kDeterministicPieces = 16;

}  // namespace crema
