#include "solvers/snapshot_set.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "format/solver_state.h"
#include "solvers/snapshot.h"

namespace crema {
namespace fs = std::filesystem;
namespace {

// N of "<stem>_iter_N.solverstate[.h5]".
std::optional<int64_t> IterationOf(std::string_view name, std::string_view start) {
  if (!name.starts_with(start)) return std::nullopt;
  name.remove_prefix(start.size());
  int64_t iteration = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), iteration);
  if (error != std::errc() || iteration < 0) return std::nullopt;
  // "007" is not a name that we write.
  const auto digits = static_cast<size_t>(end - name.data());
  if (digits != std::to_string(iteration).size()) return std::nullopt;
  name.remove_prefix(digits);
  if (name != ".solverstate" && name != ".solverstate.h5") return std::nullopt;
  return iteration;
}

// The files of a whole snapshot, the state first; empty when it is not one.
std::vector<std::string> FilesOf(const std::string& state_path) {
  std::vector<std::string> files = {state_path};
  try {
    const SolverState state = ReadSolverState(state_path);
    // Where it was written is of no matter: folders are moved.
    const SnapshotPaths paths = PathsOfState(state_path);
    if (fs::path(state.learned_net()).filename() != fs::path(paths.model).filename()) return {};
    if (!fs::is_regular_file(paths.model)) return {};
    files.push_back(paths.model);
    if (!state.ema_net().empty() && fs::is_regular_file(paths.ema)) files.push_back(paths.ema);
  } catch (const Error&) {
    return {};
  } catch (const fs::filesystem_error&) {
    return {};
  }
  return files;
}

}  // namespace

std::vector<SnapshotFile> ListSnapshots(const std::string& prefix) {
  const fs::path path(prefix);
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string start = path.filename().string() + "_iter_";
  std::vector<SnapshotFile> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const std::optional<int64_t> iteration = IterationOf(name, start);
    if (!iteration) continue;
    const std::string shown = path.has_parent_path() ? (folder / name).string() : name;
    found.push_back({*iteration, shown});
  }
  std::ranges::sort(found, [](const SnapshotFile& a, const SnapshotFile& b) {
    return a.iteration != b.iteration ? a.iteration < b.iteration : a.state < b.state;
  });
  return found;
}

void RemoveOldSnapshots(const std::string& prefix, int64_t newest, int keep, LogSink& log) {
  std::vector<SnapshotFile> snapshots = ListSnapshots(prefix);
  std::erase_if(snapshots, [&](const SnapshotFile& s) { return s.iteration > newest; });
  const auto kept = static_cast<size_t>(std::max(keep, 1));
  if (snapshots.size() <= kept) return;
  snapshots.resize(snapshots.size() - kept);
  for (const SnapshotFile& snapshot : snapshots) {
    if (snapshot.iteration == newest) continue;
    for (const std::string& file : FilesOf(snapshot.state)) {
      std::error_code error;
      fs::remove(file, error);
      if (!error) continue;
      log.Write(Severity::kWarning,
                StrCat("snapshot_keep: cannot remove '", file, "': ", error.message()));
      break;
    }
  }
}

}  // namespace crema
