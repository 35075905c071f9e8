#include "runtime/forward_warnings.h"

#include <string>

#include "core/deferred_warnings.h"
#include "core/strings.h"

namespace crema {
namespace {

void WriteWarnings(const Session& session, LogSink* log) {
  if (log == nullptr) return;
  const Plan& plan = session.plan();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const auto* teller = dynamic_cast<const HasDeferredWarnings*>(session.state(i));
    if (teller == nullptr) continue;
    for (const std::string& text : teller->TakeWarnings()) {
      log->Write(Severity::kWarning, StrCat("layer \"", plan.layers[i].name(), "\" (",
                                            Phase_Name(plan.state.phase()), "): ", text));
    }
  }
}

}  // namespace

void QueueForwardAndWarn(Session* session, LogSink* log) {
  try {
    session->QueueForward();
  } catch (...) {
    WriteWarnings(*session, log);
    throw;
  }
  WriteWarnings(*session, log);
}

double ForwardAndWarn(Session* session, LogSink* log) {
  QueueForwardAndWarn(session, log);
  return session->Loss();
}

}  // namespace crema
