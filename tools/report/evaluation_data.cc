#include "report/evaluation_data.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "common/csv.h"
#include "core/error.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

std::string PathIn(const std::string& folder, const std::string& name) {
  return (fs::path(folder) / name).string();
}

EvaluationData::Table ReadTable(const std::string& path) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  EvaluationData::Table table = ParseCsv(ReadFile(path));
  const bool square = std::ranges::all_of(
      table, [&](const std::vector<std::string>& row) { return row.size() == table[0].size(); });
  if (!square) Fail(ErrorCode::kDataLoss, "its lines differ in length", {.file = path});
  return table;
}

}  // namespace

bool HoldsEvaluation(const std::string& folder) {
  std::error_code ignored;
  return fs::exists(fs::path(folder) / "summary.json", ignored);
}

EvaluationData ReadEvaluation(const std::string& folder) {
  EvaluationData evaluation;
  evaluation.folder = folder;
  const std::string path = PathIn(folder, "summary.json");
  const std::string text = ReadFile(path);
  std::optional<JsonMembers> summary = ParseJsonMembers(text);
  if (!summary) {
    Fail(ErrorCode::kDataLoss, "is not JSON; write it with evaluate --report", {.file = path});
  }
  evaluation.summary = std::move(*summary);
  evaluation.macro = JsonMembersOf(text, "macro");
  evaluation.classes = ReadTable(PathIn(folder, "per_class.csv"));
  evaluation.confusion = ReadTable(PathIn(folder, "confusion_matrix.csv"));
  evaluation.worst = ReadTable(PathIn(folder, "worst.csv"));
  return evaluation;
}

std::string FileOfEvaluation(const EvaluationData& evaluation, const std::string& name) {
  const fs::path relative = fs::path(name).lexically_normal();
  const bool leads_out = relative.empty() || relative.is_absolute() || *relative.begin() == "..";
  const std::string path = PathIn(evaluation.folder, name);
  std::error_code ignored;
  if (leads_out || !fs::is_regular_file(path, ignored)) return {};
  return ReadFile(path);
}

}  // namespace crema::tools
