#include "solvers/run_memory.h"

#include <cmath>

#include "core/machine_limits.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "plan/summary.h"
#include "solvers/update_rule.h"

namespace crema {

std::string Mebibytes(int64_t bytes) {
  constexpr int64_t kGibibyte = int64_t{1} << 30;
  if (bytes >= 10 * kGibibyte) return StrCat(bytes / kGibibyte, " GiB");
  const double tenths = std::round(static_cast<double>(bytes) * 10 / (1 << 20));
  return StrCat(tenths / 10, " MiB");
}

int64_t TrainingBytes(const SolverParameter& solver, const Plan& plan) {
  const UpdateRule* rule = FindUpdateRule(solver.type());
  const int64_t copies = (rule == nullptr ? 0 : rule->histories) + (solver.ema_decay() > 0 ? 1 : 0);
  return Summarize(plan).peak_bytes + copies * plan.LearnedCount() * int64_t{sizeof(float)};
}

int64_t TestingBytes(const Plan& plan) {
  const NetSummary summary = Summarize(plan);
  return summary.peak_bytes - summary.weight_bytes;
}

std::optional<Problem> FindMemoryProblem(int64_t needed, int64_t available) {
  if (available == 0 || needed <= available) return std::nullopt;
  return Problem{ErrorCode::kOutOfMemory,
                 {},
                 StrCat("the nets need ", Mebibytes(needed), " of memory, but there are ",
                        Mebibytes(available), ": lower batch_size (iter_size makes up for it)")};
}

void RequireMemory(int64_t needed) {
  const std::optional<Problem> problem = FindMemoryProblem(needed, AvailableMemory());
  if (problem) throw Error({*problem});
}

}  // namespace crema
