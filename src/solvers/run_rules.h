// The rules of a run that depend on its tests; train and check share this.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "format/prototxt.h"
#include "plan/plan.h"
#include "solvers/epochs.h"
#include "solvers/learning_rate.h"
#include "solvers/metric_tracker.h"

namespace crema {

struct RunRules {
  std::optional<MetricTracker> best;   // snapshot_best
  std::optional<MetricTracker> early;  // early_stop
};

// `tests` are the plans of all test nets, in order. Binds `rate` to them if it depends on tests;
// may be null. Throws Error with the problems of all rules, each with its position in the solver's
// text.
RunRules MakeRunRules(const SolverFile& solver, std::span<const Plan* const> tests,
                      LearningRate* rate);

// Returns a warning for each rule of a run with test nets that ends before its first test after the
// start: rules decide by those tests.
std::vector<Problem> WarnAboutIdleRules(const SolverFile& solver, const Epochs& epochs);

}  // namespace crema
