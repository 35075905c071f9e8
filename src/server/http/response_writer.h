// The head of a response.
#pragma once

#include <string>

#include "server/http/message.h"

namespace crema::server {

// With Content-Length, Content-Type, X-Request-Id and what browsers are told so that they guess
// nothing. Requires: an id and fields without control characters.
std::string WriteHead(const HttpResponse& response, const std::string& id, bool keep_alive);

}  // namespace crema::server
