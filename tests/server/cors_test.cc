// --cors_origin: pages of one other origin may use the server.
#include "server/http/cors.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "server/running_server.h"

namespace crema::test {
namespace {

constexpr const char* kOrigin = "https://app.example:8443";

server::ServerOptions OptionsFor(const std::string& origin) {
  server::ServerOptions options = TestOptions();
  options.http.cors_origin = origin;
  options.http.only_local_pages = true;
  return options;
}

SocketAnswer Send(const RunningServer& running, const std::string& line,
                  const std::string& fields) {
  return Ask(running.port(), StrCat(line, " HTTP/1.1\r\nHost: localhost\r\n", fields, "\r\n"));
}

std::string Preflight(const std::string& origin) {
  return StrCat("Origin: ", origin,
                "\r\nAccess-Control-Request-Method: POST\r\nSec-Fetch-Site: cross-site\r\n"
                "Sec-Fetch-Mode: cors\r\n");
}

TEST(Cors, PagesOfTheOriginMayAskAndReadTheAnswers) {
  const RunningServer running(OptionsFor(kOrigin));
  const SocketAnswer allowed = Send(running, "OPTIONS /v2/models/m/infer", Preflight(kOrigin));
  EXPECT_EQ(allowed.status, 200);
  EXPECT_EQ(allowed.fields.at("access-control-allow-origin"), kOrigin);
  EXPECT_NE(allowed.fields.at("access-control-allow-headers").find("Authorization"),
            std::string::npos);
  const std::string from =
      StrCat("Origin: ", kOrigin, "\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: cors\r\n");
  const SocketAnswer answer = Post(running.port(), "/v2/models/m/infer", GoodInfer(), from);
  EXPECT_EQ(answer.fields.at("access-control-allow-origin"), kOrigin);
  EXPECT_EQ(answer.fields.at("vary"), "Origin");
  const SocketAnswer error = Send(running, "GET /nothing", from);
  EXPECT_EQ(error.status, 404);
  EXPECT_EQ(error.fields.at("access-control-allow-origin"), kOrigin) << "errors can be read, too";
}

TEST(Cors, PagesOfOthersAreRefusedAsBefore) {
  const RunningServer running(OptionsFor(kOrigin));
  for (const char* other : {"https://evil.example", "http://app.example:8443", "null", "",
                            "https://app.example:8443.evil.example"}) {
    const SocketAnswer answer = Send(running, "OPTIONS /v2/models/m/infer", Preflight(other));
    EXPECT_EQ(answer.status, 403) << other;
    EXPECT_FALSE(answer.fields.contains("access-control-allow-origin")) << other;
  }
  EXPECT_EQ(Send(running, "GET /v2", "Sec-Fetch-Site: cross-site\r\n").status, 403)
      << "without Origin, as images of a page are asked for";
  const SocketAnswer twice =
      Send(running, "GET /v2", StrCat("Origin: ", kOrigin, "\r\nOrigin: https://evil.example\r\n"));
  EXPECT_EQ(twice.status, 400);
  EXPECT_EQ(Ask(running.port(),
                StrCat("GET /v2 HTTP/1.1\r\nHost: evil.example\r\nOrigin: ", kOrigin, "\r\n\r\n"))
                .status,
            403)
      << "the name of the host still counts";
}

TEST(Cors, IsOffByDefault) {
  const RunningServer running(OptionsFor(""));
  EXPECT_EQ(Send(running, "OPTIONS /v2",
                 "Origin: http://localhost:3000\r\n"
                 "Access-Control-Request-Method: GET\r\n")
                .status,
            405);
  EXPECT_FALSE(Get(running.port(), "/v2/health/live", "Origin: http://localhost:3000\r\n")
                   .fields.contains("access-control-allow-origin"));
}

TEST(Cors, OriginsAreWrittenAsBrowsersSendThem) {
  for (const char* good : {"https://example.org", "http://10.0.0.1:8080", "http://[::1]:3000"}) {
    EXPECT_TRUE(server::IsOrigin(good)) << good;
  }
  for (const char* bad : {"", "*", "null", "example.org", "https://", "https://example.org/",
                          "HTTPS://example.org", "ftp://x", "https://a b", "https://a,https://b"}) {
    EXPECT_FALSE(server::IsOrigin(bad)) << bad;
  }
}

}  // namespace
}  // namespace crema::test
