// Forward passes that log the deferred warnings of data layers.
#pragma once

#include "core/log.h"
#include "runtime/session.h"

namespace crema {

// Calls Session::QueueForward, and logs the deferred warnings of layers (HasDeferredWarnings:
// skipped bad samples, a full cache) to `log`, also if the pass throws. Null: they stay deferred.
void QueueForwardAndWarn(Session* session, LogSink* log);
// The same, and returns the loss.
double ForwardAndWarn(Session* session, LogSink* log);

}  // namespace crema
