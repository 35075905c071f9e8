// A log whose lines tests can examine.
#pragma once

#include <string>
#include <vector>

#include "core/log.h"

namespace crema::test {

class LogLines final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    if (severity != Severity::kInfo) warnings.emplace_back(message);
  }
  std::vector<std::string> warnings;  // and errors
};

}  // namespace crema::test
