// Strict parser of HTTP request heads, and the heads of responses.
#pragma once

#include <string>
#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// `bytes` is the whole head with the empty line at its end. Refuses everything that servers and
// proxies are known to interpret differently: line feeds without carriage returns, folded fields,
// spaces before colons, duplicate lengths or lengths with a transfer coding, codings other than
// "chunked". Throws kBadRequest.
HttpHead ParseHead(std::string_view bytes);

// Adds Content-Length, Content-Type, X-Request-Id and headers that disable content sniffing in
// browsers. Requires: an id and fields without control characters.
std::string WriteHead(const HttpResponse& response, const std::string& id, bool keep_alive);

}  // namespace crema::server
