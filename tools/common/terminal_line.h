// A terminal line, redrawn in place.
#pragma once

#include <mutex>
#include <span>
#include <string>

#include "core/line_writer.h"

namespace crema::tools {

// Joins the first parts (most important first) that fit into `columns`, with two spaces between;
// truncates the first if it does not fit alone. Assumes one column per byte.
std::string FitParts(std::span<const std::string> parts, size_t columns);

// Formats as "1h02m" or "2m03s".
std::string DurationText(double seconds);

// Uses the current width of the terminal. A redraw is one write that overwrites the line and clears
// the rest, so that nothing flickers. The cursor stays visible and the line never wraps. A blocked
// terminal (Ctrl-S) delays callers by at most 100 ms; then text is dropped. Thread safety: any
// number of threads.
class TerminalLine {
 public:
  // `terminal` is a file descriptor; assumes 80 columns if the width is unknown.
  explicit TerminalLine(int terminal) : terminal_(terminal), writer_(terminal) {}
  // Leaves the cursor at the start of an empty line.
  ~TerminalLine() { Clear(); }
  TerminalLine(const TerminalLine&) = delete;
  TerminalLine& operator=(const TerminalLine&) = delete;

  void Draw(std::span<const std::string> parts);
  // Prints a line above the live one.
  void Print(const std::string& text);
  void Clear();
  // Returns the columns that Draw fills at most.
  size_t Columns() const;

 private:
  int terminal_;
  LineWriter writer_;
  std::mutex mutex_;  // guards the terminal's contents
  std::string shown_;
};

}  // namespace crema::tools
