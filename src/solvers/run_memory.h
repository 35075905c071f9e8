// The plan of the training net and the memory requirements of the run; train and check share this.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "plan/plan.h"
#include "solvers/solver_config.h"

namespace crema {

// Return the bytes of the training net with the histories and averages of its solver, and of a test
// net, which uses the weights of the training net.
int64_t TrainingBytes(const SolverParameter& solver, const Plan& plan);
int64_t TestingBytes(const Plan& plan);

// Returns the bytes that a run with this plan of its training net allocates on its device: that net
// with histories and averages, the test nets, which are planned here, and on the CPU a snapshot
// while it is written.
int64_t RunBytes(const RunConfig& config, const Registry& registry, const Plan& train);

// Returns kOutOfMemory and its remedy if `needed` bytes are more than `available`; nothing if
// `available` is 0 (unknown).
std::optional<Problem> FindMemoryProblem(int64_t needed, int64_t available);

// Throws that Problem for the memory that is available to this process, before it is allocated.
void RequireMemory(int64_t needed);

// "12.5 MiB".
std::string Mebibytes(int64_t bytes);

// Returns `cause`, a failed allocation on a GPU that had `free` bytes, with the needs of the run
// and the largest batch that fits. `train` is the plan of its training net. Plans the nets again.
Error ExplainRunShortage(const Error& cause, const RunConfig& config, const Registry& registry,
                         const Plan& train, int64_t free);

// Adds the warnings of the text and of planning it. Throws Error with all problems of the net.
std::shared_ptr<const Plan> PlanNetOfRun(const NetOfRun& net, const Registry& registry,
                                         const PlanOptions& options,
                                         std::vector<Problem>* warnings);

struct TrainPlan {
  std::shared_ptr<const Plan> plan;
  std::vector<std::string> frozen;  // layers that `freeze` names, in order
};

// Writes `freeze` into the text of the training net and plans it again; returns `plan`, that of the
// original text, if nothing is frozen. Throws as FrozenLayers does.
TrainPlan HoldFrozenLayers(const SolverFile& solver, std::shared_ptr<const Plan> plan,
                           const Registry& registry, NetOfRun* train);

// Returns warnings about steps of transform_param that change samples of this test net at random.
std::vector<Problem> WarnAboutRandomTests(const NetOfRun& net);

// Returns an error if the net learns nothing, unless base_lr is 0 or layers are frozen.
std::vector<Problem> CheckTraining(const SolverParameter& solver, const Plan& plan);

}  // namespace crema
