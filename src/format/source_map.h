// Where each field of a message stood in the text file that it was read from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"

namespace crema {

// Line and column in a text file, both from 1. Zeros mean "not known".
struct Position {
  int line = 0;
  int column = 0;

  friend auto operator<=>(const Position&, const Position&) = default;
};

// Positions by field path. Elements of repeated fields carry their index ("layer[3].bottom[0]"),
// singular fields do not ("layer[3].convolution_param.num_output"); a position is that of the
// field's name, or of the element where it stands in a list. Upgrades move entries along with the
// fields. Thread safety: const, any number of threads.
class SourceMap {
 public:
  std::string file;

  // The position of `path`; if it is not known, that of the nearest enclosing field that is. A
  // repeated field without index means its element 0. `file` is always set.
  Where Locate(std::string_view path) const;
  bool Has(std::string_view path) const;  // exactly this path

  // Keeps the position that is there already: of a field given twice, the first counts.
  void Add(std::string path, Position position);
  // Renames an entry and everything below it, replacing what is there under the new name.
  void Move(std::string_view from, std::string_view to);
  void Remove(std::string_view path);  // and everything below it
  // Makes room in a top-level repeated field: element i becomes element i + 1, for every i.
  void ShiftUp(std::string_view repeated_field);
  // The entries below a field, as paths of the message in it; and the way back, replacing what is
  // there: of a net inside of a solver.
  SourceMap Below(std::string_view path) const;
  void SetBelow(std::string_view path, const SourceMap& below);
  size_t size() const { return positions_.size(); }

 private:
  // Removes `path` and everything below it, and returns what it removed.
  std::vector<std::pair<std::string, Position>> Take(std::string_view path);

  std::map<std::string, Position, std::less<>> positions_;
};

}  // namespace crema
