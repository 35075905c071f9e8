#include "core/log.h"

namespace crema {
namespace {

class Null final : public LogSink {
 public:
  void Write(Severity, std::string_view) override {}
};

}  // namespace

LogSink& NullSink() {
  static Null sink;  // has no state
  return sink;
}

}  // namespace crema
