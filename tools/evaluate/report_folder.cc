#include "evaluate/report_folder.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "common/csv.h"
#include "common/json.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/image/png.h"
#include "evaluate/confusion_picture.h"
#include "format/file.h"

namespace crema::tools {

namespace fs = std::filesystem;

void Summary::Number(const std::string& name, double value) {
  entries_.emplace_back(name, JsonNumber(value));
}

void Summary::Text(const std::string& name, const std::string& text) {
  entries_.emplace_back(name, JsonString(text));
}

void Summary::Texts(const std::string& name, const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(JsonString(text));
  entries_.emplace_back(name, StrCat("[", Join(quoted, ", "), "]"));
}

void Summary::Object(const std::string& name, const Summary& object) {
  std::vector<std::string> parts;
  for (const auto& [key, json] : object.entries_) {
    parts.push_back(StrCat(JsonString(key), ": ", json));
  }
  entries_.emplace_back(name, StrCat("{", Join(parts, ", "), "}"));
}

std::string Summary::Json() const {
  std::string text = "{";
  for (const auto& [key, json] : entries_) {
    text += StrCat(text.size() == 1 ? "\n  " : ",\n  ", JsonString(key), ": ", json);
  }
  return text + "\n}\n";
}

std::string ClassNames::Of(int64_t c) const {
  return names_.empty() ? std::to_string(c) : names_[static_cast<size_t>(c)];
}

ReportFolder::ReportFolder(std::string path) : path_(std::move(path)) {
  std::error_code error;
  made_ = fs::create_directories(path_, error);
  if (error || !fs::is_directory(path_) || access(path_.c_str(), W_OK | X_OK) != 0) {
    Fail(ErrorCode::kIoFailure,
         StrCat("--report: '", path_, "' is not a folder that can be written to",
                error ? StrCat(" (", error.message(), ")") : std::string()));
  }
}

void ReportFolder::RemoveIfUnused() const {
  std::error_code ignored;  // not empty
  if (made_) fs::remove(path_, ignored);
}

void ReportFolder::Write(const std::string& name, const std::string& bytes) const {
  const fs::path file = fs::path(path_) / name;
  std::error_code ignored;  // also in the file
  fs::create_directories(file.parent_path(), ignored);
  WriteFileAtomically(file.string(), bytes);
}

void ReportFolder::WriteConfusion(const ConfusionMatrix& matrix, const ClassNames& names) const {
  std::vector<std::string> line = {"true \\ predicted"};
  for (int64_t c = 0; c < matrix.classes(); ++c) line.push_back(names.Of(c));
  std::string csv = CsvLine(line);
  for (int64_t t = 0; t < matrix.classes(); ++t) {
    line = {names.Of(t)};
    for (int64_t p = 0; p < matrix.classes(); ++p) {
      line.push_back(std::to_string(matrix.Count(t, p)));
    }
    csv += CsvLine(line);
  }
  Write("confusion_matrix.csv", csv);
  Write("confusion_matrix.png", EncodePng(DrawConfusion(matrix, names)));
}

}  // namespace crema::tools
