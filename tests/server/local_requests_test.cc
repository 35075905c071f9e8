// Foreign web pages in a browser on the server's machine.
#include "server/http/local_requests.h"

#include <gtest/gtest.h>

#include "core/strings.h"
#include "server/running_server.h"

namespace crema::test {
namespace {

TEST(LocalRequests, PagesOfOthersAreRefusedOnThisMachine) {
  server::ServerOptions options = TestOptions();
  options.http.only_local_pages = true;
  const RunningServer running(options);
  const auto status = [&](const std::string& head) { return Ask(running.port(), head).status; };
  const std::string get = "GET /v2/models/m HTTP/1.1\r\n";
  for (const char* host :
       {"localhost", "LocalHost:8000", "127.0.0.1", "127.0.0.1:1", "127.1.2.3:8000", "[::1]:80"}) {
    EXPECT_EQ(status(StrCat(get, "Host: ", host, "\r\n\r\n")), 200) << host;
  }
  for (const char* host :
       {"x", "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "192.168.0.1",
        "0.0.0.0:8000", "[::2]", "[::1]x", "127.0.0.1:x", ""}) {
    EXPECT_EQ(status(StrCat(get, "Host: ", host, "\r\n\r\n")), 403) << host;
  }
  EXPECT_EQ(status("GET /v2/health/live HTTP/1.0\r\n\r\n"), 200) << "a probe";
  const std::string local = "Host: localhost\r\n";
  const std::string cross = "Sec-Fetch-Site: cross-site\r\n";
  EXPECT_EQ(status(StrCat(get, local, cross, "\r\n")), 403);
  EXPECT_EQ(status(StrCat(get, local, "Sec-Fetch-Site: same-origin\r\n\r\n")), 200);
  EXPECT_EQ(status(StrCat("GET / HTTP/1.1\r\n", local, cross, "Sec-Fetch-Mode: navigate\r\n\r\n")),
            200)
      << "a link to the page";
  const std::string post = StrCat("POST /v2/models/m/infer HTTP/1.1\r\n", local,
                                  "Content-Length: ", GoodInfer().size(), "\r\n");
  EXPECT_EQ(status(StrCat(post, "\r\n", GoodInfer())), 200);
  EXPECT_EQ(status(StrCat(post, cross, "\r\n", GoodInfer())), 403);
  EXPECT_EQ(status(StrCat(post, cross, "Sec-Fetch-Mode: navigate\r\n\r\n", GoodInfer())), 403)
      << "a form";
}

}  // namespace
}  // namespace crema::test
