#include "solvers/snapshot_set.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <iomanip>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/file.h"
#include "solvers/snapshot.h"

namespace crema {
namespace fs = std::filesystem;
namespace {

// The part of a file name after "<stem>_iter_": N, and the rest.
struct Numbered {
  int64_t iteration = 0;
  std::string_view rest;
};

std::optional<Numbered> NumberedName(std::string_view name, std::string_view stem) {
  constexpr std::string_view kIter = "_iter_";
  if (!name.starts_with(stem)) return std::nullopt;
  name.remove_prefix(stem.size());
  if (!name.starts_with(kIter)) return std::nullopt;
  name.remove_prefix(kIter.size());
  int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), iteration);
  if (error != std::errc() || iteration < 0) return std::nullopt;
  // Crema does not write names such as "007".
  const auto digits = static_cast<size_t>(end - name.data());
  if (digits != std::to_string(iteration).size()) return std::nullopt;
  name.remove_prefix(digits);
  return Numbered{iteration, name};
}

bool IsState(const Numbered& name) {
  return name.rest == ".solverstate" || name.rest == ".solverstate.h5";
}

std::string StemOf(const std::string& prefix) { return fs::path(prefix).filename().string(); }

// Returns the path of the file of this name in the folder of the prefix.
std::string Beside(const std::string& prefix, const std::string& name) {
  return (fs::path(prefix).parent_path() / name).string();
}

// Returns the names of the files (no folders, pipes, devices) beside the prefix that begin as it
// does.
std::vector<std::string> NamesBeside(const std::string& prefix) {
  const fs::path folder = fs::path(prefix).parent_path();
  const std::string stem = StemOf(prefix);
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder.empty() ? "." : folder, error), end;
       !error && entry != end; Advance(entry, error)) {
    std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(stem) && entry->is_regular_file(ignored)) names.push_back(std::move(name));
  }
  return names;
}

// Returns true if a run of this prefix writes files of this name.
bool IsOfRun(std::string_view name, std::string_view stem) {
  constexpr std::array<std::string_view, 7> kEnds = {
      ".solverstate",    ".solverstate.h5",    ".caffemodel", ".caffemodel.h5",
      "_ema.caffemodel", "_ema.caffemodel.h5", ".tempfile"};
  const std::optional<Numbered> numbered = NumberedName(name, stem);
  if (numbered) return std::ranges::find(kEnds, numbered->rest) != kEnds.end();
  if (!name.starts_with(stem)) return false;
  name.remove_prefix(stem.size());
  return name == "_best.caffemodel" || name == "_best.caffemodel.h5";
}

void WarnOfRemoval(const std::string& path, const std::error_code& error, LogSink& log) {
  log.Write(Severity::kWarning,
            StrCat("snapshot_keep: cannot remove '", path, "': ", error.message()));
}

// Returns false, with a warning, if the file cannot be removed. Ignores missing files and
// non-files.
bool RemoveFile(const std::string& path, LogSink& log) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return true;
  fs::remove(path, error);
  if (error) WarnOfRemoval(path, error, log);
  return !error;
}

// A state is first renamed to this, so that a killed process leaves no state without its model, and
// removed last, so that the next removal finds and completes the work.
constexpr const char* kRemoved = ".removed";

// Returns false if something could not be removed.
bool FinishRemoval(const std::string& state, LogSink& log) {
  std::error_code ignored;
  if (!fs::exists(state, ignored)) {  // a new state of that name owns the model
    const SnapshotPaths paths = PathsOfState(state);
    if (!RemoveFile(paths.ema, log) || !RemoveFile(paths.model, log)) return false;
  }
  return RemoveFile(state + kRemoved, log);
}

}  // namespace

void FinishRemovals(const std::string& prefix, LogSink& log) {
  const std::string stem = StemOf(prefix);
  for (std::string name : NamesBeside(prefix)) {
    if (!name.ends_with(kRemoved)) continue;
    name.resize(name.size() - std::string_view(kRemoved).size());
    const std::optional<Numbered> numbered = NumberedName(name, stem);
    if (numbered && IsState(*numbered)) FinishRemoval(Beside(prefix, name), log);
  }
}

std::vector<SnapshotFile> ListSnapshots(const std::string& prefix) {
  const std::string stem = StemOf(prefix);
  std::vector<SnapshotFile> found;
  for (const std::string& name : NamesBeside(prefix)) {
    const std::optional<Numbered> numbered = NumberedName(name, stem);
    if (!numbered || !IsState(*numbered)) continue;
    found.push_back({numbered->iteration, Beside(prefix, name)});
  }
  std::ranges::sort(found, [](const SnapshotFile& a, const SnapshotFile& b) {
    return a.iteration != b.iteration ? a.iteration < b.iteration : a.state < b.state;
  });
  return found;
}

void RemoveOldSnapshots(const std::string& prefix, int64_t newest, int keep, LogSink& log) {
  FinishRemovals(prefix, log);
  std::vector<SnapshotFile> snapshots = ListSnapshots(prefix);
  std::erase_if(snapshots, [&](const SnapshotFile& s) { return s.iteration > newest; });
  const auto kept = static_cast<size_t>(std::max(keep, 1));
  if (snapshots.size() <= kept) return;
  snapshots.resize(snapshots.size() - kept);
  for (const SnapshotFile& snapshot : snapshots) {
    if (snapshot.iteration == newest) continue;
    std::error_code error;
    fs::rename(snapshot.state, snapshot.state + kRemoved, error);
    if (error == std::errc::no_such_file_or_directory) continue;  // another run removed it
    if (error) {
      WarnOfRemoval(StrCat(snapshot.state, "' by way of '", snapshot.state, kRemoved), error, log);
    } else if (FinishRemoval(snapshot.state, log)) {
      log.Write(Severity::kInfo,
                StrCat("snapshot_keep: removed ", snapshot.state, " and its model"));
    }
  }
}

int RemoveTemporaryFiles(const std::string& prefix) {
  const std::string stem = StemOf(prefix);
  int removed = 0;
  for (const std::string& name : NamesBeside(prefix)) {
    if (!IsOfRun(NameOfAbandoned(Beside(prefix, name)), stem)) continue;
    std::error_code error;
    if (fs::remove(Beside(prefix, name), error)) ++removed;
  }
  return removed;
}

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
  for (size_t s = 0; s < plan.parameters.size(); ++s) {
    const uint64_t bytes = static_cast<uint64_t>(plan.parameters[s].shape.count()) * element;
    written += bytes;
    if (plan.parameters[s].owner == static_cast<int>(s)) owned += bytes;
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
  struct statvfs status {};
  if (::statvfs(ExistingFolderOf(prefix).c_str(), &status) != 0) {
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
