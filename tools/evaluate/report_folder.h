// What every report writes: a folder with a summary in JSON and tables in CSV.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "metrics/confusion_matrix.h"

namespace crema::tools {

// Names and numbers of summary.json, in order.
class Summary {
 public:
  void Number(const std::string& name, double value);  // null for what is no number
  void Text(const std::string& name, const std::string& text);
  void Texts(const std::string& name, const std::vector<std::string>& texts);
  void Object(const std::string& name, const Summary& object);
  std::string Json() const;  // an object, a line an entry

 private:
  std::vector<std::pair<std::string, std::string>> entries_;  // name, JSON
};

// Names of classes; those without one are called by their number.
class ClassNames {
 public:
  ClassNames() = default;
  explicit ClassNames(std::vector<std::string> names) : names_(std::move(names)) {}
  std::string Of(int64_t c) const;
  // Names for 0..classes-1; empty when none were given.
  const std::vector<std::string>& given() const { return names_; }

 private:
  std::vector<std::string> names_;
};

// A folder, made when it is not there. Files are replaced whole. Everything throws kIoFailure.
class ReportFolder {
 public:
  explicit ReportFolder(std::string path);
  const std::string& path() const { return path_; }
  void Write(const std::string& name, const std::string& bytes) const;
  // confusion_matrix.csv (true classes down, predicted ones across) and confusion_matrix.png.
  void WriteConfusion(const ConfusionMatrix& matrix, const ClassNames& names) const;

 private:
  std::string path_;
};

}  // namespace crema::tools
