#include "server/http/cors.h"

#include <algorithm>

namespace crema::server {

bool IsOrigin(std::string_view text) {
  if (!text.starts_with("http://") && !text.starts_with("https://")) return false;
  const std::string_view host = text.substr(text.find("//") + 2);
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           std::string_view(".-_:[]").find(c) != std::string_view::npos;
  });
}

bool IsPreflight(const HttpHead& head, std::string_view allowed) {
  return !allowed.empty() && head.method == "OPTIONS" && head.Find("origin") == allowed &&
         !head.Find("access-control-request-method").empty();
}

HttpResponse PreflightResponse() {
  HttpResponse response;
  response.content_type = "text/plain";
  response.fields = {{"Access-Control-Allow-Methods", "GET, HEAD, POST"},
                     {"Access-Control-Allow-Headers",
                      "Authorization, Content-Type, Inference-Header-Content-Length, X-Request-Id"},
                     {"Access-Control-Max-Age", "600"}};
  return response;
}

void AllowOrigin(const HttpHead& head, const std::string& allowed, HttpResponse* response) {
  response->fields.emplace_back("Vary", "Origin");
  if (head.Find("origin") != allowed) return;
  response->fields.emplace_back("Access-Control-Allow-Origin", allowed);
  response->fields.emplace_back("Access-Control-Expose-Headers",
                                "Inference-Header-Content-Length, Retry-After, X-Request-Id");
}

}  // namespace crema::server
