#include "server/http/local_requests.h"

#include <arpa/inet.h>

#include <algorithm>
#include <string>

#include "server/http/field_text.h"

namespace crema::server {
namespace {

bool IsPort(std::string_view text) {
  return text.empty() ||
         (text.front() == ':' && text.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

}  // namespace

bool IsLocalHost(std::string_view host) {
  constexpr std::string_view kIpv6 = "[::1]";
  if (host.starts_with(kIpv6)) return IsPort(host.substr(kIpv6.size()));
  const size_t colon = std::min(host.find(':'), host.size());
  if (!IsPort(host.substr(colon))) return false;
  const std::string name(host.substr(0, colon));
  in_addr address{};
  constexpr uint32_t kLoopback = 127;
  return EqualsIgnoringCase(name, "localhost") ||
         (::inet_pton(AF_INET, name.c_str(), &address) == 1 &&
          ntohl(address.s_addr) >> 24 == kLoopback);
}

void RefuseForeignPages(const HttpHead& head, std::string_view allowed_origin) {
  const std::string_view host = head.Find("host");
  if (!(host.empty() && head.minor_version == 0) && !IsLocalHost(host)) {
    Refuse(Cause::kForbidden,
           "Host is not localhost, 127.0.0.1 or [::1], and this server answers this machine only: "
           "ask for one of them, or start it with --token_file");
  }
  const bool follows_link =
      (head.method == "GET" || head.method == "HEAD") && head.Find("sec-fetch-mode") == "navigate";
  const bool is_allowed = !allowed_origin.empty() && head.Find("origin") == allowed_origin;
  if (head.Find("sec-fetch-site") == "cross-site" && !follows_link && !is_allowed) {
    Refuse(Cause::kForbidden,
           "a page of another site asks, and this server answers this machine only: start it with "
           "--cors_origin=ORIGIN of the page, or with --token_file");
  }
}

}  // namespace crema::server
