// Cross-origin resource sharing: pages of one other origin may read answers.
#pragma once

#include <string>
#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// Returns true for an origin as browsers send it: "https://example.org" or "http://10.0.0.1:8080",
// in lower case, without a path.
bool IsOrigin(std::string_view text);

// Returns true if a page of `allowed` asks for permission to send a request (a preflight).
bool IsPreflight(const HttpHead& head, std::string_view allowed);
// Permits GET and POST with the header fields that the interface has.
HttpResponse PreflightResponse();
// Lets a page of `allowed` read the response. `allowed` is not empty.
void AllowOrigin(const HttpHead& head, const std::string& allowed, HttpResponse* response);

}  // namespace crema::server
