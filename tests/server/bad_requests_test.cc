// Each bad request gets its status, and the server keeps running.
#include "server/bad_requests.h"

#include <gtest/gtest.h>

#include "server/running_server.h"
#include "server/secret.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

server::ServerOptions SmallLimits() {
  server::ServerOptions options = TestOptions();
  options.http.limits.body_bytes = size_t{1} << 20;
  return options;
}

// The answer if nothing follows the sent bytes.
SocketAnswer AnswerTo(uint16_t port, const BadRequest& request) {
  SocketClient client(port);
  client.Send(request.bytes);
  client.EndSending();
  return client.Read(!request.bytes.starts_with("HEAD"));
}

TEST(BadRequests, EachGetsItsStatusAndTheServerGoesOn) {
  const RunningServer running(SmallLimits());
  for (const BadRequest& request : BadRequests()) {
    const SocketAnswer answer = AnswerTo(running.port(), request);
    EXPECT_EQ(answer.status, request.status) << request.name << ": " << answer.body;
    EXPECT_EQ(answer.body.find(CREMA_SOURCE_DIR), std::string::npos) << request.name;
    const bool is_json = answer.body.starts_with("{\"error\":\"") || answer.body.empty();
    EXPECT_TRUE(is_json) << request.name << ": " << answer.body;
  }
  EXPECT_EQ(Post(running.port(), "/v2/models/m/infer", GoodInfer()).status, 200);
}

TEST(BadRequests, AreAtLeast300) { EXPECT_GE(BadRequests().size(), 300U); }

TEST(BadRequests, ABodyThatIsCutGets400) {
  const RunningServer running;
  const std::string head =
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 77\r\n\r\n";
  for (const size_t there : {size_t{0}, size_t{1}, size_t{40}, size_t{70}}) {
    SocketClient client(running.port());
    client.Send(head + GoodInfer().substr(0, there));
    client.EndSending();
    EXPECT_EQ(client.Read().status, 400) << there;
  }
  SocketClient chunks(running.port());
  chunks.Send(
      "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{");
  chunks.EndSending();
  EXPECT_EQ(chunks.Read().status, 400);
  EXPECT_EQ(Post(running.port(), "/v2/models/m/infer", GoodInfer()).status, 200);
}

TEST(BadRequests, WrongTokensGet401) {
  const TempDir folder;
  server::ServerOptions options = TestOptions();
  options.inference_tokens =
      server::TokenSet::FromFile(WriteSecret(folder, "t", "0123456789abcdef"));
  const RunningServer running(options);
  for (const char* value :
       {"", "Bearer", "Bearer ", "Bearer  0123456789abcdef", "Bearer 0123456789abcde",
        "Bearer 0123456789abcdef0", "Bearer 0123456789abcdeF", "Basic 0123456789abcdef",
        "0123456789abcdef", "Bearer\t0123456789abcdef", "Bearer 0123456789abcdef,x",
        "Bearer \"0123456789abcdef\"", "Bearer0123456789abcdef", "Digest 0123456789abcdef"}) {
    const SocketAnswer answer =
        Get(running.port(), "/v2/models/m", std::string("Authorization: ") + value + "\r\n");
    EXPECT_EQ(answer.status, 401) << value;
    EXPECT_EQ(answer.fields.at("www-authenticate"), "Bearer");
  }
  const auto body = [&](const std::string& fields) {
    return Get(running.port(), "/v2/models/m", fields).body;
  };
  EXPECT_NE(body("Authorization: Bearer 0123456789abcdeX\r\n").find("this token is not valid"),
            std::string::npos);
  EXPECT_NE(body("").find("a token is needed"), std::string::npos);
  EXPECT_EQ(
      Get(running.port(), "/v2/models/m", "Authorization: bearer 0123456789abcdef\r\n").status,
      200);
}

}  // namespace
}  // namespace crema::test
