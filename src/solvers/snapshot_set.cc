#include "solvers/snapshot_set.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <string_view>

#include "core/folder.h"
#include "core/strings.h"
#include "format/temporary_file.h"
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

}  // namespace crema
