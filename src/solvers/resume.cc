#include "solvers/resume.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/solver_state.h"
#include "solvers/snapshot_set.h"

namespace crema {
namespace {

void TakeSeed(const std::string& state_path, SolverOptions* options) {
  const SolverState state = ReadSolverState(state_path);
  if (state.has_seed() && !options->seed) options->seed = state.seed();
}

// Returns true for errors of the files, not of their use.
bool IsDamage(const Error& error) {
  return error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kNotFound ||
         error.code() == ErrorCode::kIoFailure;
}

// A run from the beginning would overwrite what may still be recovered.
[[noreturn]] void FailWithoutWholeOne(const std::string& prefix,
                                      const std::vector<std::string>& refused) {
  constexpr size_t kShown = 5;
  std::vector<std::string> shown = refused;
  if (shown.size() > kShown) shown.resize(kShown);
  const std::string more =
      refused.size() > kShown ? StrCat(" and ", refused.size() - kShown, " more") : "";
  Fail(ErrorCode::kDataLoss,
       StrCat("no snapshot of '", prefix, "' can be used: ", Join(shown, ", "), more,
              " (the warnings say why). Training does not start over beside them: set another "
              "snapshot_prefix, name a snapshot with --resume=STATE, or remove them"));
}

}  // namespace

std::unique_ptr<Solver> ResumeFrom(const std::string& state_path, RunConfig config,
                                   const Registry& registry, SolverOptions options) {
  TakeSeed(state_path, &options);
  auto solver = std::make_unique<Solver>(std::move(config), registry, std::move(options));
  solver->Restore(state_path);
  return solver;
}

Resumed ResumeNewest(const RunConfig& config, const Registry& registry,
                     const SolverOptions& options) {
  const std::string& prefix = config.solver.solver.snapshot_prefix();
  if (prefix.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         "to resume from the newest snapshot, the solver needs the field snapshot_prefix");
  }
  LogSink& log = options.log != nullptr ? *options.log : NullSink();
  std::vector<std::string> refused;
  std::vector<SnapshotFile> snapshots = ListSnapshots(prefix);
  std::ranges::reverse(snapshots);  // the newest first
  for (const SnapshotFile& snapshot : snapshots) {
    const auto skip = [&](const Error& error) {
      if (!IsDamage(error)) throw error;
      refused.push_back(snapshot.state);
      log.Write(Severity::kWarning, StrCat("the snapshot ", snapshot.state, " cannot be used: ",
                                           error.what(), "; looking for the one before"));
    };
    SolverOptions with_seed = options;
    try {
      TakeSeed(snapshot.state, &with_seed);
    } catch (const Error& error) {
      skip(error);
      continue;
    }
    auto solver = std::make_unique<Solver>(config, registry, std::move(with_seed));
    try {
      solver->Restore(snapshot.state);
    } catch (const Error& error) {
      skip(error);
      continue;
    }
    log.Write(Severity::kInfo, "resuming from " + snapshot.state);
    return {std::move(solver), snapshot.state};
  }
  if (!refused.empty()) FailWithoutWholeOne(prefix, refused);
  log.Write(Severity::kInfo, StrCat("no snapshot of '", prefix,
                                    "' to resume from: training starts at the beginning"));
  return {std::make_unique<Solver>(config, registry, options), ""};
}

}  // namespace crema
