#include "solvers/state_check.h"

#include <algorithm>

#include "core/strings.h"
#include "solvers/learning_rate.h"

namespace crema {
namespace {

void CheckType(const SolverState& state, const std::string& path, const SolverParameter& param) {
  if (!state.has_solver_type() || state.solver_type() == param.type()) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("this state is of a ", state.solver_type(), " solver, but the solver file says ",
              param.type(), "; resume with the same type, or start from the model with --weights"),
       {.file = path});
}

void WarnAboutSeed(const SolverState& state, const SolverParameter& param, uint64_t seed,
                   LogSink* log) {
  if (!state.has_seed()) return;
  if (state.seed() != seed) {
    log->Write(Severity::kWarning,
               StrCat("resuming with seed ", seed, ", but the run so far had ", state.seed(),
                      ": random draws will differ from an uninterrupted run"));
  } else if (param.random_seed() >= 0 &&
             static_cast<uint64_t>(param.random_seed()) != state.seed()) {
    log->Write(Severity::kWarning,
               StrCat("the solver file says random_seed: ", param.random_seed(),
                      ", but the run so far had ", state.seed(), "; it continues with that"));
  }
}

// Returns false if the drops counted in the state certainly belong to another schedule. A state
// does not name its policy, but `plateau` leaves more in it than others, and `multistep` drops at
// known iterations.
bool HasDropsOfSchedule(const SolverParameter& param, const SolverState& state) {
  const std::string& policy = param.lr_policy();
  if (state.current_step() == 0 || (policy != "plateau" && policy != "multistep")) return true;
  const bool of_plateau = state.has_minimum_loss() ||
                          std::ranges::any_of(state.metric_state(), [](const MetricState& rule) {
                            return rule.rule() == "plateau";
                          });
  if (policy == "plateau") return of_plateau;
  const auto passed =
      std::ranges::count_if(param.stepvalue(), [&](int value) { return value < state.iter(); });
  return !of_plateau && state.current_step() <= passed;
}

void CheckDrops(const SolverState& state, const std::string& path, const SolverParameter& param,
                LogSink* log) {
  const int steps = state.current_step();
  if (state.iter() < 0 || steps < 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the state is damaged: iteration ", state.iter(), ", current_step ", steps),
         {.file = path});
  }
  const int most = LearningRate(param).most_steps();
  if (steps > most) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the learning rate of the run so far dropped ", steps,
                " times, but the solver file has only ", most,
                " entries of stepvalue: the schedule was changed since. Put it back, or start from "
                "the model with --weights"),
         {.file = path});
  }
  if (!HasDropsOfSchedule(param, state)) {
    log->Write(Severity::kWarning, StrCat("the learning rate of the run so far dropped ", steps,
                                          " times by another lr_policy or other stepvalues; ",
                                          param.lr_policy(), " counts these drops as its own"));
  }
}

}  // namespace

void CheckState(const SolverState& state, const std::string& path, const SolverParameter& param,
                uint64_t seed, LogSink* log) {
  CheckType(state, path, param);
  WarnAboutSeed(state, param, seed, log);
  CheckDrops(state, path, param, log);
}

}  // namespace crema
