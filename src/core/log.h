// Log messages leave the library through a sink that the program gives; without one it is silent.
#pragma once

#include <string_view>

namespace crema {

enum class Severity { kInfo, kWarning, kError };

// Thread safety: Write may be called by several threads at once.
class LogSink {
 public:
  virtual ~LogSink() = default;
  virtual void Write(Severity severity, std::string_view message) = 0;
};

// Swallows everything. Stateless.
LogSink& NullSink();

}  // namespace crema
