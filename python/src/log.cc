#include "log.h"

#include <atomic>
#include <cstdio>
#include <string>

#include "core/strings.h"

namespace crema::python {
namespace {

class StderrLog final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    if (static_cast<int>(severity) < level) return;
    const std::string lines = StrCat("crema: ",
                                     severity == Severity::kWarning ? "warning: "
                                     : severity == Severity::kError ? "error: "
                                                                    : "",
                                     message, "\n");
    std::fwrite(lines.data(), 1, lines.size(), stderr);
  }

  std::atomic<int> level = 1;
};

StderrLog& Sink() {
  static StderrLog sink;
  return sink;
}

}  // namespace

LogSink& Log() { return Sink(); }
void SetLogLevel(int level) { Sink().level = level; }

}  // namespace crema::python
