#include "solvers/run_rules.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {

RunRules MakeRunRules(const SolverFile& solver, std::span<const Plan* const> tests,
                      LearningRate* rate) {
  const SolverParameter& param = solver.solver;
  RunRules rules;
  std::vector<Problem> problems;
  const auto collect = [&](const auto& make) {
    try {
      make();
    } catch (const Error& error) {
      for (Problem problem : error.problems()) {
        problem.where = solver.source.Locate(problem.where.field);
        problems.push_back(std::move(problem));
      }
    }
  };
  collect([&] {
    if (rate != nullptr) rate->BindTests(tests);
  });
  collect([&] {
    if (param.has_snapshot_best()) {
      rules.best.emplace("snapshot_best", param.snapshot_best(), tests);
    }
  });
  collect([&] {
    if (param.has_early_stop()) rules.early.emplace("early_stop", param.early_stop(), tests);
  });
  if (!problems.empty()) throw Error(std::move(problems));
  return rules;
}

std::vector<Problem> WarnAboutIdleRules(const SolverFile& solver, const Epochs& epochs) {
  const SolverParameter& param = solver.solver;
  int64_t first = INT64_MAX;
  const char* field = "test_interval";
  if (param.test_interval() > 0) first = param.test_interval();
  if (param.test_interval_epoch() > 0 && epochs.known()) {
    const int64_t of_epochs = epochs.IterationsOf(param.test_interval_epoch());
    if (of_epochs < first) field = "test_interval_epoch";
    first = std::min(first, of_epochs);
  }
  std::vector<Problem> warnings;
  if (first == INT64_MAX || first <= param.max_iter() || param.max_iter() == 0) return warnings;
  const bool on_tests = LearningRate(param).wants_metric();
  for (const auto& [rule, is_set] :
       {std::pair("snapshot_best", param.has_snapshot_best()),
        std::pair("early_stop", param.has_early_stop()), std::pair("plateau", on_tests)}) {
    if (!is_set) continue;
    warnings.push_back(
        {ErrorCode::kInvalidArgument, solver.source.Locate(rule),
         StrCat(rule,
                " never acts on what was learned: the first test after training began would "
                "be at iteration ",
                first, ", but the run ends at ", param.max_iter(), "; lower ", field)});
  }
  return warnings;
}

}  // namespace crema
