// Strict parser of HTTP request heads.
#pragma once

#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// `bytes` is the whole head with the empty line at its end. Refuses everything that servers and
// proxies are known to interpret differently: line feeds without carriage returns, folded fields,
// spaces before colons, duplicate lengths or lengths with a transfer coding, codings other than
// "chunked". Throws kBadRequest.
HttpHead ParseHead(std::string_view bytes);

}  // namespace crema::server
