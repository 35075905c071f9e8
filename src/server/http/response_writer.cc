#include "server/http/response_writer.h"

#include "core/strings.h"

namespace crema::server {

std::string WriteHead(const HttpResponse& response, const std::string& id, bool keep_alive) {
  std::string head = StrCat("HTTP/1.1 ", response.status, ' ', ReasonPhrase(response.status),
                            "\r\nContent-Length: ", response.body.size(),
                            "\r\nContent-Type: ", response.content_type, "\r\nX-Request-Id: ", id,
                            "\r\nX-Content-Type-Options: nosniff\r\n");
  for (const auto& [name, value] : response.fields) head += StrCat(name, ": ", value, "\r\n");
  head += keep_alive ? "Connection: keep-alive\r\n\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace crema::server
