// time_limit: the wall-clock limit of a run.
#pragma once

#include <chrono>
#include <string>

namespace crema {

// Parses "90s", "45m", "2h30m", "1d": whole numbers with units in descending order, each once.
// Throws kInvalidArgument for anything else, and for 0 or more than 3650 days.
std::chrono::seconds ParseTimeLimit(const std::string& text);

// Uses the monotonic clock, so setting the time of day changes nothing.
class Deadline {
 public:
  Deadline() = default;  // never
  explicit Deadline(std::chrono::seconds from_now)
      : set_(true), at_(std::chrono::steady_clock::now() + from_now) {}

  bool IsOver() const { return set_ && std::chrono::steady_clock::now() >= at_; }

 private:
  bool set_ = false;
  std::chrono::steady_clock::time_point at_;
};

}  // namespace crema
