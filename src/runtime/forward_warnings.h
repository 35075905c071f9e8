// A forward pass whose data layers may have something for the log.
#pragma once

#include "core/log.h"
#include "runtime/session.h"

namespace crema {

// Session::QueueForward. What layers have to tell (HasDeferredWarnings: bad samples that were
// passed over, a cache that is full) is written to `log` as warnings, also when the pass throws.
// Null: it waits.
void QueueForwardAndWarn(Session* session, LogSink* log);
// The same, and the loss.
double ForwardAndWarn(Session* session, LogSink* log);

}  // namespace crema
