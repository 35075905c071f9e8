// Log output of the library through a sink of the program; silent without one.
#pragma once

#include <string_view>

namespace crema {

enum class Severity { kInfo, kWarning, kError };

// Receives messages. Thread safety: several threads may call Write at once.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(Severity severity, std::string_view message) = 0;
};

// Discards everything. Stateless.
LogSink& NullSink();

}  // namespace crema
