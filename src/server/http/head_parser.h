// The head of an HTTP request, read strictly.
#pragma once

#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// `bytes` are all of the head with the empty line that ends it. What servers and proxies have been
// known to read in different ways is refused, whether or not it would be harmless: line feeds
// without carriage returns, folded fields, spaces before colons, lengths that are given twice or
// beside a transfer coding, codings other than "chunked". Throws kBadRequest.
HttpHead ParseHead(std::string_view bytes);

}  // namespace crema::server
