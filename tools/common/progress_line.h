// Shows progress of work on many items: count, speed, remaining time.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/terminal_line.h"

namespace crema::tools {

// On a terminal a line redrawn in place; elsewhere occasional log lines; with --quiet only
// warnings. Thread safety: one thread at a time.
class ProgressLine {
 public:
  struct Options {
    std::string unit = "images";
    uint64_t total = 0;  // 0: unknown
    uint64_t done = 0;   // items done by an earlier command
  };
  explicit ProgressLine(Options options);

  void Add(uint64_t items = 1);
  // Logs a warning above the line.
  void Warn(const std::string& text);
  // Removes the line.
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

// Returns the known ones of "12/50 images", "24 %", "3.1 images/s", "ETA 0m12s". `added` of `done`
// items took `seconds`.
std::vector<std::string> ProgressParts(const std::string& unit, uint64_t done, uint64_t total,
                                       uint64_t added, double seconds);

}  // namespace crema::tools
