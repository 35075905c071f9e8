// Shared by all reports: a folder with a summary in JSON and tables in CSV.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "metrics/confusion_matrix.h"

namespace crema::tools {

// Members of summary.json, in order.
class Summary {
 public:
  void Number(const std::string& name, double value);  // null for NaN and infinity
  void Text(const std::string& name, const std::string& text);
  void Texts(const std::string& name, const std::vector<std::string>& texts);
  void Object(const std::string& name, const Summary& object);
  std::string Json() const;  // an object, one line per entry

 private:
  std::vector<std::pair<std::string, std::string>> entries_;  // name, JSON
};

// Class names; a class without name is called by its number.
class ClassNames {
 public:
  ClassNames() = default;
  explicit ClassNames(std::vector<std::string> names) : names_(std::move(names)) {}
  std::string Of(int64_t c) const;
  // Names for 0..classes-1; empty if none were given.
  const std::vector<std::string>& given() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// A folder, created if missing. Replaces files atomically. All functions throw kIoFailure.
class ReportFolder {
 public:
  explicit ReportFolder(std::string path);
  const std::string& path() const { return path_; }
  // Removes the folder if this object made it and it is empty.
  void RemoveIfUnused() const;
  void Write(const std::string& name, const std::string& bytes) const;
  // Writes confusion_matrix.csv (true classes as rows, predicted ones as columns) and
  // confusion_matrix.png.
  void WriteConfusion(const ConfusionMatrix& matrix, const ClassNames& names) const;

 private:
  std::string path_;
  bool made_ = false;
};

}  // namespace crema::tools
