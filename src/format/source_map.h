// Positions of a message's fields in its text file.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace crema {

// Line and column in a text file, both from 1. Zeros mean "unknown".
struct Position {
  int line = 0;
  int column = 0;

  friend auto operator<=>(const Position&, const Position&) = default;
};

// Positions by field path. Elements of repeated fields carry their index ("layer[3].bottom[0]"),
// singular fields do not ("layer[3].convolution_param.num_output"). A position is that of the
// field's name, or of the element within a list. Upgrades move entries together with the fields.
// Thread safety: const, any number of threads.
class SourceMap {
 public:
  std::string file;

  // Returns the position of `path`, or of the nearest enclosing field with a known position. A
  // repeated field without index means element 0. Always sets `file`.
  Where Locate(std::string_view path) const;
  bool Has(std::string_view path) const;  // exact match

  // Keeps an existing position: the first occurrence of a field counts.
  void Add(std::string path, Position position);
  // Renames an entry and everything below it, replacing existing entries.
  void Move(std::string_view from, std::string_view to);
  void Remove(std::string_view path);  // and everything below it
  // Records that `path`, with everything below it, comes from elsewhere, such as a flag: Locate
  // then returns `origin` as the file, without a line.
  void SetOrigin(std::string_view path, std::string_view origin);
  // Makes room in a top-level repeated field: renames every element i to i + 1.
  void ShiftUp(std::string_view repeated_field);
  // Returns the entries below a field, relative to it; SetBelow is the inverse and replaces
  // existing entries. For nets inside of a solver.
  SourceMap Below(std::string_view path) const;
  void SetBelow(std::string_view path, const SourceMap& below);
  size_t size() const { return positions_.size(); }

 private:
  // Removes and returns `path` and everything below it.
  std::vector<std::pair<std::string, Position>> Take(std::string_view path);

  // By path; "path@origin" for fields that are not from the file.
  std::map<std::string, Position, std::less<>> positions_;
};

}  // namespace crema
