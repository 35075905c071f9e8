// A run on several devices of this machine: each trains the whole net on its share of each batch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "parallel/rank_group.h"
#include "runtime/compute_device.h"
#include "solvers/solver.h"

namespace crema {

// Returns true for BatchNorm and BN with sync: true, which sum over the ranks in their passes.
bool SumsOverRanks(const LayerParameter& layer);
// Throws kUnsupported for layers that write files while they train, since all ranks would write the
// same, and for BatchNorm with sync: true on GPUs.
void RefuseLayersOfRanks(const Plan& plan);
// Returns the run of a rank above 0: without averages and snapshots. With `shares_tests` it has the
// tests that ranks may divide: all, unless averaged weights are tested.
RunConfig ConfigOfFollower(RunConfig config, bool shares_tests);

// Trains on several devices. On each, a solver in its own thread reads the samples whose number in
// the order of the data is its rank modulo the number of devices. Gradients are summed over the
// devices and divided by their number. All weights therefore stay the same, and equal those of one
// device with the combined batch. Rank 0 is an ordinary solver that tests, writes snapshots and
// reports; the others follow it. Thread safety: one thread, which is that of rank 0.
class ParallelRun {
 public:
  // Rank r computes on devices[r]; `collective` has as many ranks. Requires two devices or more.
  ParallelRun(std::vector<ComputeDevice> devices, std::unique_ptr<Collective> collective);
  ~ParallelRun();

  // Returns `options` of rank 0 on its device in this run. This must outlive solvers made with
  // them.
  SolverOptions OptionsOfFirst(SolverOptions options);
  // Makes the solvers of the other ranks. `config` and `options` are those of rank 0; `state_path`
  // is the state that it was restored from, or empty. Its loaded weights are copied to all when
  // they run. Throws the errors of construction and restoring, with the device if memory or the
  // device is at fault, and kUnsupported for layers that write files while they train.
  void MakeOthers(const Solver& first, const RunConfig& config, const Registry& registry,
                  const SolverOptions& options, const std::string& state_path);

  // Calls `body` with the solvers of all ranks, each in its thread, and returns when all have
  // ended. It must make the same calls in each, such as Solve. Throws the first error of a rank;
  // the run cannot continue then.
  void Run(Solver* first, const std::function<void(Solver&)>& body);
  // Returns the solver of a rank above 0; for tests.
  Solver& other(int rank) { return *others_.at(static_cast<size_t>(rank) - 1); }

 private:
  class RankLog;

  [[noreturn]] void Rethrow(const RankGroup::Failure& failure) const;
  std::string NameOf(int rank) const;

  const std::vector<ComputeDevice> devices_;
  ThreadRanks ranks_;
  std::vector<std::unique_ptr<RankLog>> logs_;
  std::vector<std::unique_ptr<Solver>> others_;  // of ranks 1, 2, ...
};

}  // namespace crema
