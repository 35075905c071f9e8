// GET /: one page for people.
#pragma once

#include "server/http/message.h"

namespace crema::server {

// A page without outside resources, and with a policy that allows none: a picture is dropped on it,
// sent to /v1/classify, and the classes are shown as bars.
HttpResponse PageResponse();

}  // namespace crema::server
