// Guards a server that listens on a loopback address and asks for no token.
#pragma once

#include <string_view>

#include "server/http/message.h"

namespace crema::server {

// Whether `host`, a Host field, is localhost, an address 127.x.x.x or [::1], with any port.
bool IsLocalHost(std::string_view host);

// Refuses what a browser on this machine may be made to send by a web page of others. Throws
// kForbidden where Host is another name (a name of theirs that leads here, "DNS rebinding"), and
// where Sec-Fetch-Site is cross-site, but for links that are followed. A request of HTTP/1.0
// without Host is of no browser.
void RefuseForeignPages(const HttpHead& head);

}  // namespace crema::server
