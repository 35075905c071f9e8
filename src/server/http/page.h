// GET /: a page for interactive use.
#pragma once

#include "server/http/message.h"

namespace crema::server {

// Returns a page without external resources, and with a policy that forbids them. A picture dropped
// on it is sent to /v1/classify, and the classes are shown as bars.
HttpResponse PageResponse();

}  // namespace crema::server
