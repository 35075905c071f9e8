#include "report/find_runs.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "report/charts.h"
#include "report/ranking.h"
#include "report/run_folder.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kMostDepth = 2;  // folders of sweeps have the runs one or two levels down

bool IsRun(const std::string& folder) { return HoldsMetrics(folder) || HoldsRun(folder); }

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Returns the folder of the evaluation of a run; empty: none.
std::string EvaluationOf(const std::string& folder) {
  const std::string within = (fs::path(folder) / "evaluation").string();
  if (HoldsEvaluation(within)) return within;
  return HoldsEvaluation(folder) ? folder : std::string();
}

// Appends the runs below a folder, in the order of their names, and notes about folders that cannot
// be listed.
void FindRunsIn(const std::string& folder, int depth, std::vector<std::string>* found,
                std::vector<std::string>* notes) {
  std::vector<std::string> inner;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) inner.push_back(it->path().string());
  }
  if (error) notes->push_back(StrCat(folder, " cannot be read: ", error.message()));
  std::ranges::sort(inner);
  for (const std::string& one : inner) {
    if (IsRun(one)) {
      found->push_back(one);
    } else if (depth < kMostDepth) {
      FindRunsIn(one, depth + 1, found, notes);
    }
  }
}

// Equal names would be indistinguishable in legends: runs are then named by their paths.
void MakeNamesUnique(std::vector<ReportedRun>* runs) {
  std::map<std::string, int> counts;
  for (const ReportedRun& reported : *runs) ++counts[reported.run.name];
  std::set<std::string> names;
  for (ReportedRun& reported : *runs) {
    std::string& name = reported.run.name;
    if (counts[name] > 1) name = fs::path(reported.run.folder).lexically_normal().string();
    const std::string first = name;
    for (int i = 2; !names.insert(name).second; ++i) name = StrCat(first, " (", i, ")");
  }
}

// Reads a run of a folder of runs; what cannot be read becomes a note.
void ReadFound(const std::string& folder, const std::string& run_folder, ReportedRuns* all) {
  ReportedRun reported;
  try {
    reported.run = ReadRun(run_folder);
  } catch (const Error& error) {
    all->notes.push_back(StrCat(run_folder, " cannot be read: ", error.what()));
    return;
  }
  reported.run.name = fs::path(run_folder).lexically_relative(folder).string();
  try {
    const std::string evaluation = EvaluationOf(run_folder);
    if (!evaluation.empty()) reported.evaluation = ReadEvaluation(evaluation);
  } catch (const Error& error) {
    all->notes.push_back(StrCat("the evaluation of ", run_folder, " is left out: ", error.what()));
  }
  all->runs.push_back(std::move(reported));
}

void ReadFolder(const std::string& folder, bool* is_folder_of_runs, ReportedRuns* all) {
  const std::string evaluation = EvaluationOf(folder);
  if (!evaluation.empty() || IsRun(folder) || !IsFolder(folder)) {
    ReportedRun reported{.run = ReadRun(folder), .evaluation = {}};
    if (!evaluation.empty()) reported.evaluation = ReadEvaluation(evaluation);
    all->runs.push_back(std::move(reported));
    return;
  }
  std::vector<std::string> found;
  FindRunsIn(folder, 1, &found, &all->notes);
  if (found.empty()) {
    Fail(ErrorCode::kNotFound,
         StrCat("'", folder,
                "' holds neither metrics.csv nor an evaluation, and no runs lie in it; give the "
                "folder of a run (train --run=DIR), of several, or of evaluate --report=DIR"));
  }
  *is_folder_of_runs = true;
  for (const std::string& one : found) ReadFound(folder, one, all);
}

// Adds what the file system knows of a file.
void AddState(const fs::path& path, std::string* state) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return;
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  *state += StrCat(path.string(), " ", size, " ", time, "\n");
}

}  // namespace

ReportedRuns ReadRuns(const std::vector<std::string>& folders, RunOrder order) {
  ReportedRuns all;
  bool is_folder_of_runs = false;
  for (const std::string& folder : folders) {
    try {
      ReadFolder(folder, &is_folder_of_runs, &all);
    } catch (const Error& error) {
      if (order == RunOrder::kBestFirst) throw;
      all.notes.emplace_back(error.what());  // it has not begun, or a file is being written
    }
  }
  for (const ReportedRun& one : all.runs) {
    all.notes.insert(all.notes.end(), one.run.faults.begin(), one.run.faults.end());
  }
  if (is_folder_of_runs && order == RunOrder::kBestFirst) all.order = SortByBest(&all.runs);
  MakeNamesUnique(&all.runs);
  return all;
}

std::string StateOfRuns(const std::vector<std::string>& folders) {
  std::vector<std::string> runs;
  std::vector<std::string> notes;
  for (const std::string& folder : folders) {
    if (!EvaluationOf(folder).empty() || IsRun(folder)) {
      runs.push_back(folder);
    } else {
      FindRunsIn(folder, 1, &runs, &notes);
    }
  }
  std::string state = Join(notes, "\n");
  for (const std::string& run : runs) {
    state += run + "\n";
    for (const char* name : {"metrics.csv", "metrics.jsonl", "run.json", "summary.json",
                             "evaluation/summary.json", "evaluation/worst.csv"}) {
      AddState(fs::path(run) / name, &state);
    }
  }
  return state;
}

}  // namespace crema::tools
