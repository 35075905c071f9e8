#include "solvers/snapshot_space.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <sstream>

#include "core/dtype.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

namespace crema {
namespace {

std::string Megabytes(uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

}  // namespace

uint64_t SnapshotBytes(const Plan& plan, int histories, bool averaged) {
  constexpr uint64_t kText = 1 << 14;  // names, shapes and parameters in addition to the numbers
  const uint64_t element = SizeOf(plan.options.dtype);
  uint64_t written = 0;  // a model repeats shared parameters in each layer
  uint64_t owned = 0;
  for (size_t s = 0; s < plan.learned.size(); ++s) {
    const uint64_t bytes = static_cast<uint64_t>(plan.learned[s].shape.count()) * element;
    written += bytes;
    if (plan.learned[s].owner == static_cast<int>(s)) owned += bytes;
  }
  const uint64_t text = kText + plan.written.ByteSizeLong();
  const uint64_t models = averaged ? 2 : 1;
  return models * (written + text) + static_cast<uint64_t>(histories) * owned + text;
}

SnapshotNeed SnapshotNeedOf(const SolverParameter& param, const Plan& plan, int histories,
                            int64_t iteration, double epoch_iterations) {
  SnapshotNeed need;
  need.once = SnapshotBytes(plan, histories, param.ema_decay() > 0);
  const int64_t most = std::max<int64_t>(param.max_iter(), iteration);
  const int64_t every = param.snapshot();
  if (every > 0) need.count += most / every - iteration / every;
  if (param.snapshot_epoch() > 0 && epoch_iterations > 0) {
    need.count += static_cast<int64_t>(static_cast<double>(most - iteration) /
                                       (epoch_iterations * param.snapshot_epoch()));
  }
  const bool at_end = param.snapshot_after_train() || !param.time_limit().empty();
  if (at_end && (every <= 0 || most % every != 0)) ++need.count;
  // The new snapshot is written before an old one is removed.
  const int64_t kept = param.snapshot_keep();
  if (kept > 0) need.count = std::min(need.count, kept + 1);
  need.all = static_cast<uint64_t>(need.count) * need.once;
  if (param.has_snapshot_best()) need.all += SnapshotBytes(plan, 0, false);
  return need;
}

uint64_t FreeBytes(const std::string& prefix) {
  const std::filesystem::path folder = std::filesystem::path(prefix).parent_path();
  struct statvfs status {};
  if (::statvfs(folder.empty() ? "." : folder.c_str(), &status) != 0) {
    return std::numeric_limits<uint64_t>::max();
  }
  return static_cast<uint64_t>(status.f_bavail) * status.f_frsize;
}

void CheckSnapshotSpace(const SnapshotNeed& need, uint64_t free, const std::string& prefix,
                        LogSink& log) {
  if (free >= need.all && free >= need.once) return;
  if (free < need.once) {
    Fail(ErrorCode::kIoFailure,
         StrCat("a snapshot of this run takes ", Megabytes(need.once), ", but only ",
                Megabytes(free), " are free beside snapshot_prefix \"", prefix,
                "\"; free some space or write elsewhere"));
  }
  log.Write(Severity::kWarning,
            StrCat("the snapshots of this run will take ", Megabytes(need.all), ", but only ",
                   Megabytes(free), " are free beside snapshot_prefix \"", prefix,
                   "\"; free some space, or keep fewer with snapshot_keep"));
}

}  // namespace crema
