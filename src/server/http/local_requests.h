// Protects a server on a loopback address without tokens against foreign web pages.
#pragma once

#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// Returns true if `host`, a Host field, is localhost, an address 127.x.x.x or [::1], with any port.
bool IsLocalHost(std::string_view host);

// Refuses requests that a foreign web page can make a local browser send. Throws kForbidden if Host
// is another name (DNS rebinding), and if Sec-Fetch-Site is cross-site, except for followed links
// and pages of `allowed_origin` (empty: none). An HTTP/1.0 request without Host does not come from
// a browser.
void RefuseForeignPages(const HttpHead& head, std::string_view allowed_origin);

}  // namespace crema::server
