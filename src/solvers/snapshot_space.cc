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

namespace crema {
namespace {

std::string Megabytes(uint64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << static_cast<double>(bytes) / 1e6 << " MB";
  return text.str();
}

}  // namespace

uint64_t SnapshotBytes(const Plan& plan, int histories, bool averaged) {
  constexpr uint64_t kText = 1 << 14;  // names, shapes and parameters around the numbers
  const uint64_t element = SizeOf(plan.options.dtype);
  uint64_t written = 0;  // a model has shared blobs in each layer
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
  const auto left = static_cast<double>(std::max<int64_t>(0, param.max_iter() - iteration));
  double count = param.snapshot_after_train() ? 1 : 0;
  if (param.snapshot() > 0) count += left / param.snapshot();
  if (param.snapshot_epoch() > 0 && epoch_iterations > 0) {
    count += left / (epoch_iterations * param.snapshot_epoch());
  }
  // The new one is there before an old one goes.
  if (param.snapshot_keep() > 0) count = std::min(count, param.snapshot_keep() + 1.0);
  need.all = static_cast<uint64_t>(count * static_cast<double>(need.once));
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
