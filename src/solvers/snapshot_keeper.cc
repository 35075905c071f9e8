#include "solvers/snapshot_keeper.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "solvers/snapshot.h"
#include "solvers/snapshot_set.h"

namespace crema {
namespace {

// A snapshot with NaN would be the newest, and useless.
void RefuseBrokenWeights(const RunWeights& run, int64_t iteration) {
  for (size_t s = 0; s < run.plan.parameters.size(); ++s) {
    const std::span<const float> values = run.weights.blob(s).span<float>();
    if (std::ranges::all_of(values, [](float w) { return std::isfinite(w); })) continue;
    const PlannedLayer& layer = run.plan.layers[static_cast<size_t>(run.plan.parameters[s].layer)];
    Fail(ErrorCode::kDiverged,
         StrCat("training diverged: after iteration ", iteration - 1,
                " the weights are no longer finite; no snapshot was written. Lower base_lr or set "
                "clip_gradients. Snapshots written before are whole"),
         {.layer = layer.name()});
  }
}

}  // namespace

bool SnapshotKeeper::IsPlanned() const {
  return CanWrite() &&
         (param_.snapshot() > 0 || param_.snapshot_epoch() > 0 || param_.snapshot_after_train() ||
          param_.has_snapshot_best() || !param_.time_limit().empty());
}

bool SnapshotKeeper::IsDue(int64_t iteration, const Epochs& epochs) const {
  const bool due = param_.snapshot() > 0 && iteration % param_.snapshot() == 0;
  return due || epochs.EndsAt(iteration, param_.snapshot_epoch());
}

void SnapshotKeeper::Check(const std::function<void()>& check) const {
  const bool planned = IsPlanned();
  if (!planned && (!options_.may_be_asked || !has_prefix())) return;
  try {
    check();
  } catch (const Error& error) {
    if (planned) throw;
    options_.log->Write(Severity::kWarning,
                        StrCat("this run makes no snapshot when it is stopped: ", error.what()));
  }
}

void SnapshotKeeper::CheckFolder() const {
  Check([this] { MakeSnapshotFolder(param_.snapshot_prefix()); });
}

void SnapshotKeeper::Prepare(const Plan& plan, int histories, const Epochs& epochs,
                             int64_t iteration, bool resumed) const {
  const std::string& prefix = param_.snapshot_prefix();
  if (!CanWrite()) return;
  FinishRemovals(prefix, *options_.log);
  if (iteration >= param_.max_iter()) return;
  if (const int removed = RemoveTemporaryFiles(prefix); removed > 0) {
    options_.log->Write(Severity::kInfo, StrCat("removed ", removed, " temporary files of '",
                                                prefix, "' that killed runs left"));
  }
  Check([&] {
    CheckSnapshotNames(param_, plan);
    const double epoch = epochs.known() ? static_cast<double>(epochs.IterationsOf(1)) : 0;
    CheckSnapshotSpace(SnapshotNeedOf(param_, plan, histories, iteration, epoch), FreeBytes(prefix),
                       prefix, *options_.log);
  });
  if (!resumed && iteration == 0) WarnAboutOtherRun();
}

void SnapshotKeeper::WarnAboutOtherRun() const {
  const std::string& prefix = param_.snapshot_prefix();
  const std::vector<SnapshotFile> others = ListSnapshots(prefix);
  if (others.empty() || others.back().iteration == 0) return;
  options_.log->Write(
      Severity::kWarning,
      StrCat("this run starts at the beginning, but there are snapshots of another run of '",
             prefix, "': --resume=auto would resume from ", others.back().state,
             "; set another snapshot_prefix, or remove them"));
}

void SnapshotKeeper::Write(const RunWeights& run, int64_t iteration, SolverState state) {
  RefuseBrokenWeights(run, iteration);
  options_.observer->OnSnapshotStart();
  const SnapshotPaths paths =
      WriteSnapshot(param_, run.plan, run.weights, run.averaged, iteration, std::move(state));
  last_ = iteration;
  options_.observer->OnSnapshot(paths.model, paths.state);
  if (param_.snapshot_keep() > 0) {
    RemoveOldSnapshots(param_.snapshot_prefix(), iteration, param_.snapshot_keep(), *options_.log);
  }
}

void SnapshotKeeper::TryWrite(int64_t iteration, const std::function<void()>& write) {
  if (last_ == iteration) return;
  if (!options_.writes) {
    last_ = iteration;  // set by rank 0, for messages
    return;
  }
  try {
    write();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIoFailure) throw;
    options_.log->Write(Severity::kError,
                        StrCat("no snapshot at iteration ", iteration, ": ", error.what(),
                               "; snapshots written before are whole; training continues"));
  }
}

bool SnapshotKeeper::WriteBest(const RunWeights& run, const MetricTracker& best) const {
  const std::string path = BestPath(param_);
  try {
    WriteModel(param_, run.plan, run.tested(), path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIoFailure) throw;
    options_.log->Write(Severity::kError,
                        StrCat("snapshot_best: ", error.what(), "; training continues without it"));
    return false;
  }
  options_.observer->OnBest(path, best.metric(), best.best().value_or(0));
  return true;
}

std::string SnapshotKeeper::LastModel() const {
  const std::string model = PathsOf(param_, std::max<int64_t>(0, last_)).model;
  std::error_code ignored;
  return last_ >= 0 && std::filesystem::exists(model, ignored) ? model : std::string();
}

}  // namespace crema
