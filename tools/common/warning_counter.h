// Counts warnings, for --strict.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "core/log.h"

namespace crema::tools {

// Forwards messages. Thread safety: any number of threads.
class WarningCounter final : public LogSink {
 public:
  // `next` must outlive this.
  explicit WarningCounter(LogSink& next) : next_(next) {}

  void Write(Severity severity, std::string_view message) override {
    if (severity == Severity::kWarning) ++count_;
    next_.Write(severity, message);
  }
  int64_t count() const { return count_; }

 private:
  LogSink& next_;
  std::atomic<int64_t> count_{0};
};

}  // namespace crema::tools
