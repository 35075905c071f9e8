#include "solvers/run_rules.h"

#include <utility>
#include <vector>

#include "core/error.h"

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

}  // namespace crema
