// Progress of work on many items: how many, how fast, how long still.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/terminal_line.h"

namespace crema::tools {

// On a terminal one line, redrawn in place; elsewhere a line of the log now and then; with --quiet
// nothing but warnings. Thread safety: one thread at a time.
class ProgressLine {
 public:
  struct Options {
    std::string unit = "images";
    uint64_t total = 0;  // 0: not known
    uint64_t done = 0;   // before this command began
  };
  explicit ProgressLine(Options options);

  void Add(uint64_t items = 1);
  // A warning, above the line.
  void Warn(const std::string& text);
  // Takes the line away.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  void Show(Clock::time_point now);

  const Options options_;
  const Clock::time_point start_ = Clock::now();
  std::optional<TerminalLine> line_;
  Clock::duration interval_;
  Clock::time_point shown_ = start_;
  uint64_t done_;
};

// "12/50 images", "24 %", "3.1 images/s", "ETA 0m12s": as far as it is known. `added` of `done`
// items took `seconds`.
std::vector<std::string> ProgressParts(const std::string& unit, uint64_t done, uint64_t total,
                                       uint64_t added, double seconds);

}  // namespace crema::tools
