#include "runtime/forward_telling.h"

#include <string>

#include "core/notices.h"
#include "core/strings.h"

namespace crema {
namespace {

void Tell(const Session& session, LogSink* log) {
  if (log == nullptr) return;
  const Plan& plan = session.plan();
  for (size_t i = 0; i < plan.layers.size(); ++i) {
    const auto* teller = dynamic_cast<const NoticeTeller*>(session.state(i));
    if (teller == nullptr) continue;
    for (const std::string& text : teller->TakeNotices()) {
      log->Write(Severity::kWarning, StrCat("layer \"", plan.layers[i].name(), "\" (",
                                            Phase_Name(plan.state.phase()), "): ", text));
    }
  }
}

}  // namespace

void QueueForwardTelling(Session* session, LogSink* log) {
  try {
    session->QueueForward();
  } catch (...) {
    Tell(*session, log);
    throw;
  }
  Tell(*session, log);
}

double ForwardTelling(Session* session, LogSink* log) {
  QueueForwardTelling(session, log);
  return session->Loss();
}

}  // namespace crema
