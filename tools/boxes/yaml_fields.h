// Reads the part of YAML in which data sets of YOLO are described.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace crema::tools {

struct YamlItem {
  std::string key = {};  // of a map; empty in a list
  std::string value = {};
};

struct YamlField {
  int line = 0;
  bool list = false;  // or a map; else `items` has the value, or nothing
  std::vector<YamlItem> items = {};
};

// Reads `key: value` at the beginning of lines, where a value is plain or in quotes, a list or a
// map of such values, in brackets or a line each. Deeper and folded values are left out. Throws
// kNotFound, kIoFailure, and kDataLoss with the line: no such field, a bracket or quote without
// end.
std::map<std::string, YamlField> ReadYamlFields(const std::string& file);

// Throws kDataLoss at the beginning of a line.
[[noreturn]] void FailLine(const std::string& file, int line, const std::string& what);

}  // namespace crema::tools
