// One line of a terminal, redrawn in place.
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "core/line_writer.h"

namespace crema::tools {

// As many of the parts, the most important first, as fit into `columns`, two spaces between them;
// the first is cut where it does not fit alone. Text of one column a byte.
std::string FitParts(std::span<const std::string> parts, size_t columns);

// "1h02m" or "2m03s".
std::string DurationText(double seconds);

// As wide as the terminal is at that moment. A redraw is one write that goes over what is there and
// clears the rest, so that nothing flickers. The cursor stays visible and the line never wraps. A
// terminal that takes nothing (Ctrl-S) holds nothing up for longer than 100 ms; what finds no room
// is not shown.
// Thread safety: any number of threads.
class TerminalLine {
 public:
  // `terminal` is a file descriptor; 80 columns where it does not tell.
  explicit TerminalLine(int terminal) : terminal_(terminal), writer_(terminal) {}
  // Leaves the cursor at the beginning of an empty line.
  ~TerminalLine() { Clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  void Draw(std::span<const std::string> parts);
  // A line above the live one.
  void Print(const std::string& text);
  void Clear();

 private:
  size_t Columns() const;

  int terminal_;
  LineWriter writer_;
  std::mutex mutex_;  // of what is on the terminal
  std::string shown_;
};

}  // namespace crema::tools
