// Routes and connections, over real sockets.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <map>
#include <stdexcept>
#include <thread>

#include "core/strings.h"
#include "server/running_server.h"
#include "server/secret.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using namespace server;
using namespace std::chrono_literals;

constexpr const char* kToken = "a-token-of-enough-length";

// With one request in progress, which waits at the gate.
struct BusyServer {
  BusyServer() {
    fake.gate->Close();
    client.Send(GoodInferRequest());
    fake.gate->AwaitWaiting(1);
  }
  FakeModelOptions fake = [] {
    FakeModelOptions options;
    options.gate = std::make_shared<Gate>();
    return options;
  }();
  RunningServer running{TestOptions(), fake};
  SocketClient client{running.port()};
};

TEST(Http, AnswersHealthAndMetadata) {
  const RunningServer running;
  EXPECT_EQ(Get(running.port(), "/v2/health/live").status, 200);
  EXPECT_EQ(Get(running.port(), "/healthz").status, 200);
  EXPECT_EQ(Get(running.port(), "/v2/health/ready").status, 200);
  EXPECT_TRUE(Contains(Get(running.port(), "/v2").body, R"("name":"crema")"));
  const SocketAnswer model = Get(running.port(), "/v2/models/m");
  EXPECT_EQ(model.body,
            R"({"name":"m","versions":["1"],"platform":"crema","inputs":[{"name":"x",)"
            R"("datatype":"FP32","shape":[-1,4]}],"outputs":[{"name":"y","datatype":"FP32",)"
            R"("shape":[-1,4]},{"name":"sum","datatype":"FP32","shape":[-1,1]}]})");
  const SocketAnswer ready = Get(running.port(), "/v2/models/m/versions/1/ready");
  EXPECT_EQ(ready.status, 200);
  EXPECT_EQ(ready.body, R"({"name":"m","ready":true})");
  EXPECT_EQ(Get(running.port(), "/v2/models/m/versions/2/ready").status, 404);
  EXPECT_EQ(Get(running.port(), "/v2/models/n/ready").status, 404);
  EXPECT_TRUE(Contains(Get(running.port(), "/v2/models/m/config").body, R"("max_batch_size":16)"));
}

TEST(Http, InfersFromJsonAndFromBytes) {
  const RunningServer running;
  const SocketAnswer json = Post(running.port(), "/v2/models/m/infer", GoodInfer());
  EXPECT_EQ(json.status, 200);
  EXPECT_EQ(json.body,
            R"({"model_name":"m","model_version":"1","outputs":[{"name":"y","datatype":"FP32",)"
            R"("shape":[1,4],"data":[2,4,6,8]},{"name":"sum","datatype":"FP32","shape":[1,1],)"
            R"("data":[10]}]})");
  const std::string head =
      R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","parameters":)"
      R"({"binary_data_size":16}}],"outputs":[{"name":"y","parameters":{"binary_data":true}}]})";
  const float values[] = {1, 2, 3, 4};
  std::string body = head;
  body.append(reinterpret_cast<const char*>(values), sizeof(values));
  const SocketAnswer binary =
      Post(running.port(), "/v2/models/m/versions/1/infer", body,
           StrCat("Inference-Header-Content-Length: ", head.size(), "\r\n"));
  ASSERT_EQ(binary.status, 200);
  const size_t length = std::stoul(binary.fields.at("inference-header-content-length"));
  ASSERT_EQ(binary.body.size(), length + 16);
  float answer[4];
  std::memcpy(answer, binary.body.data() + length, sizeof(answer));
  EXPECT_EQ(answer[3], 8);
}

TEST(Http, KeepsConnectionsAndTakesPipelinedRequests) {
  const RunningServer running;
  SocketClient client(running.port());
  const std::string request = GoodInferRequest();
  client.Send(request + request + "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().body, R"({"live":true})");
  client.Send("GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_TRUE(client.IsClosed());
}

TEST(Http, TakesRequestsByteByByte) {
  const RunningServer running;
  SocketClient client(running.port());
  const std::string request = GoodInferRequest();
  for (const char byte : request) {
    client.Send(std::string(1, byte));
    std::this_thread::sleep_for(100us);
  }
  EXPECT_EQ(client.Read().status, 200);
  client.Send(request.substr(0, 30));
  std::this_thread::sleep_for(5ms);
  client.Send(request.substr(30) + request);
  EXPECT_EQ(client.Read().status, 200);
  EXPECT_EQ(client.Read().status, 200);
}

TEST(Http, TakesChunksAndEncouragesThoseWhoAsk) {
  const RunningServer running;
  SocketClient chunks(running.port());
  chunks.Send("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string body = GoodInfer();
  for (const std::string& part : {body.substr(0, 10), body.substr(10)}) {
    char size[20];
    std::snprintf(size, sizeof(size), "%zx\r\n", part.size());
    chunks.Send(size + part + "\r\n");
  }
  chunks.Send("0\r\n\r\n");
  EXPECT_EQ(chunks.Read().status, 200);

  SocketClient polite(running.port());
  polite.Send(StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n",
                     "Content-Length: ", body.size(), "\r\n\r\n"));
  EXPECT_EQ(polite.Read(false).status, 100);
  polite.Send(body);
  EXPECT_EQ(polite.Read().status, 200);
}

TEST(Http, PassesRequestIdsThrough) {
  const RunningServer running;
  const auto id = [&](const std::string& given) {
    return Get(running.port(), "/v2/health/live", given).fields.at("x-request-id");
  };
  EXPECT_EQ(id("X-Request-Id: abc-1:2\r\n"), "abc-1:2");
  EXPECT_EQ(id("").size(), 32U);
  EXPECT_EQ(id("X-Request-Id: a<script>\r\n").size(), 32U);
}

TEST(Http, WritesAnAccessLogWithoutTokens) {
  const TempDir folder;
  ServerOptions options = TestOptions();
  const int file = ::open(folder.File("log").c_str(), O_CREAT | O_WRONLY, 0600);
  options.access_log = file;
  options.api.access_log = AccessLog::kJson;
  {
    const RunningServer running(options);
    Get(running.port(), "/v2/models/m?token=secret",
        "X-Request-Id: seven\r\nAuthorization: Bearer secret\r\n");
    Ask(running.port(), "nonsense\r\n\r\n");
  }
  ::close(file);
  const std::string log = folder.Read("log");
  EXPECT_TRUE(Contains(log, R"("id":"seven","method":"GET","path":"/v2/models/m","status":200)"))
      << log;
  EXPECT_TRUE(Contains(log, R"("method":"-","path":"-","status":400)")) << log;
  EXPECT_FALSE(Contains(log, "secret"));
}

TEST(Http, TheQueueBoundAnswersAtOnce) {
  FakeModelOptions fake;
  fake.gate = std::make_shared<Gate>();
  RunningServer running(TestOptions(), fake, {.max_queue = 1});
  fake.gate->Close();
  const std::string request = GoodInferRequest();
  SocketClient runs(running.port());
  runs.Send(request);
  fake.gate->AwaitWaiting(1);
  SocketClient waits(running.port());
  SocketClient refused(running.port());
  waits.Send(request);
  // Either may come first; one waits, one is refused.
  refused.Send(request);
  SocketAnswer late;
  std::thread reader([&] { late = refused.Read(); });
  while (!Contains(running.server.service().metrics.Text(), "queue_full\"} 1")) {
    std::this_thread::sleep_for(1ms);
  }
  fake.gate->Open();
  reader.join();
  const SocketAnswer other = waits.Read();
  EXPECT_EQ(runs.Read().status, 200);
  EXPECT_EQ(late.status + other.status, 200 + 503);
  EXPECT_EQ((late.status == 503 ? late : other).fields.at("retry-after"), "1");
}

TEST(Http, ErrorsOfTheModelCarryNoPaths) {
  const RunningServer running;
  const auto infer = [&](const std::string& value) {
    return Post(running.port(), "/v2/models/m/infer",
                StrCat(R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[)", value,
                       ",2,3,4]}]}"));
  };
  EXPECT_EQ(infer("666").status, 400);
  const SocketAnswer internal = infer("667");
  EXPECT_EQ(internal.status, 500);
  EXPECT_EQ(internal.body, R"({"error":"internal error"})");
}

TEST(Http, AsksForTokens) {
  const TempDir folder;
  ServerOptions options = TestOptions();
  options.inference_tokens =
      TokenSet::FromFile(WriteSecret(folder, "t", StrCat("# mine\n", kToken)));
  options.admin_tokens = TokenSet::FromFile(WriteSecret(folder, "a", kAdminToken));
  const RunningServer running(options);
  const auto status = [&](const std::string& path, const std::string& token) {
    return Get(running.port(), path,
               token.empty() ? "" : StrCat("Authorization: Bearer ", token, "\r\n"))
        .status;
  };
  EXPECT_EQ(status("/v2/models/m", ""), 401);
  EXPECT_EQ(status("/v2/models/m", std::string(kToken) + "x"), 401);
  EXPECT_EQ(status("/v2/models/m", std::string(kToken).substr(1)), 401);
  EXPECT_EQ(status("/v2/models/m", kToken), 200);
  EXPECT_EQ(status("/v2/models/m", kAdminToken), 200);
  EXPECT_EQ(status("/metrics", ""), 401);
  for (const char* open : {"/", "/openapi.json", "/v2/health/live", "/v2/health/ready"}) {
    EXPECT_EQ(status(open, ""), 200) << open;
  }
  const auto load = [&](const std::string& token) {
    return Post(running.port(), "/v2/repository/models/m/load", "",
                StrCat("Authorization: Bearer ", token, "\r\n"));
  };
  EXPECT_EQ(load(kToken).status, 401);
  EXPECT_EQ(load(kAdminToken).status, 400) << "one model, which stays";
  const RunningServer open;
  EXPECT_EQ(Post(open.port(), "/v2/repository/models/m/load", "").status, 403);
}

TEST(Http, SlowClientsGetAnErrorAndAreCut) {
  ServerOptions options = TestOptions();
  options.http.idle = options.http.head = options.http.body = 50ms;
  const RunningServer running(options);
  SocketClient idle(running.port());
  EXPECT_TRUE(idle.IsClosed());
  SocketClient head(running.port());
  head.Send("GET /v2/health/live HT");
  EXPECT_EQ(head.Read().status, 408);
  EXPECT_TRUE(head.IsClosed());
  SocketClient body(running.port());
  body.Send("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
  EXPECT_EQ(body.Read().status, 408);
  EXPECT_TRUE(body.IsClosed());
}

TEST(Http, DrainingIsNotReadyAndCompletesRequestsInProgress) {
  BusyServer busy;
  RunningServer& running = busy.running;
  SocketClient open(running.port());
  bool all = false;
  std::thread drain([&] { all = running.server.Drain(20s, 300ms); });
  while (running.server.service().ready) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(Get(running.port(), "/v2/health/ready").status, 503);
  EXPECT_EQ(Get(running.port(), "/v2/health/live").status, 200);
  while (!running.server.service().ending) std::this_thread::sleep_for(1ms);
  open.Send("GET /v2/models/m HTTP/1.1\r\nHost: x\r\n\r\n");
  const SocketAnswer late = open.Read();
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.fields.at("connection"), "close");
  busy.fake.gate->Open();
  const SocketAnswer answer = busy.client.Read();
  drain.join();
  EXPECT_TRUE(all);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.fields.at("connection"), "close");
  EXPECT_THROW(SocketClient(running.port()), std::runtime_error) << "nobody listens any more";
}

TEST(Http, DrainingGivesUpWhenItsTimeIsOver) {
  BusyServer busy;
  EXPECT_FALSE(busy.running.server.Drain(1ms));
  busy.fake.gate->Open();
}

// Clients that keep asking get 200, 503, or a refused connection. Linux resets a connection whose
// handshake completes while the listener closes (after the last accept), so the last one of each
// client may break; no other may.
TEST(Http, DrainingUnderLoadCutsNoRequestOff) {
  RunningServer running;
  const std::string request = GoodInferRequest();
  std::vector<std::thread> clients;
  std::array<std::map<int, int>, 4> seen;
  for (std::map<int, int>& mine : seen) {
    clients.emplace_back([&] {
      try {
        for (;;) {
          const int status = Ask(running.port(), request).status;
          ++mine[status];
          EXPECT_EQ(mine[0], status == 0 ? 1 : 0) << "more follows a connection that broke";
        }
      } catch (const std::runtime_error&) {
        // Nothing listens.
      }
    });
  }
  EXPECT_TRUE(running.server.Drain(20s, 100ms));
  for (std::thread& client : clients) client.join();
  for (const std::map<int, int>& mine : seen) {
    for (const auto& [status, times] : mine) {
      EXPECT_TRUE(status == 200 || status == 503 || status == 0)
          << status << " " << times << " times";
    }
  }
}

TEST(Http, DescribesItself) {
  const RunningServer running;
  const SocketAnswer page = Get(running.port(), "/");
  EXPECT_EQ(page.status, 200);
  EXPECT_FALSE(Contains(page.body, "http://"));
  EXPECT_FALSE(Contains(page.body, "https://"));
  EXPECT_TRUE(Contains(page.fields.at("content-security-policy"), "default-src 'none'"));
  const SocketAnswer api = Get(running.port(), "/openapi.json");
  for (const RouteRow& row : Routes()) {
    if (row.pattern == "/v2/") continue;
    EXPECT_TRUE(Contains(api.body, StrCat('"', row.pattern, '"'))) << row.pattern;
  }
  for (const char* datatype :
       {"BOOL", "UINT8", "UINT64", "INT8", "FP16", "BF16", "FP64", "BYTES"}) {
    EXPECT_TRUE(Contains(api.body, StrCat('"', datatype, '"'))) << datatype;
  }
  const SocketAnswer head = [&] {
    SocketClient client(running.port());
    client.Send("HEAD / HTTP/1.1\r\nHost: x\r\n\r\n");
    return client.Read(false);
  }();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.fields.at("content-length"), std::to_string(page.body.size()));
}

TEST(Http, CountsForPrometheus) {
  const RunningServer running;
  Post(running.port(), "/v2/models/m/infer", GoodInfer());
  Post(running.port(), "/v2/models/m/infer", "{}");
  Get(running.port(), "/nothing");
  const std::string text = Get(running.port(), "/metrics").body;
  for (const char* part :
       {"crema_inferences_total{model=\"m\"} 1", "crema_batch_samples_count{model=\"m\"} 1",
        "crema_model_version{model=\"m\"} 1", "crema_refusals_total{cause=\"not_found\"} 1",
        "crema_answers_total{protocol=\"http\",status=\"400\"} 1", "crema_ready 1",
        "process_start_time_seconds", "process_resident_memory_bytes"}) {
    EXPECT_TRUE(Contains(text, part)) << part << "\n" << text;
  }
  const SocketAnswer statistics = Get(running.port(), "/v2/models/m/stats");
  EXPECT_TRUE(Contains(statistics.body, R"("inference_count":1,"execution_count":1)"));
  EXPECT_TRUE(Contains(Get(running.port(), "/v2/models/stats").body, R"("name":"m")"));
}

TEST(Http, ClassifiesPictures) {
  FakeModelOptions fake;
  fake.picture = true;
  fake.labels = {"a", "b", "c", "d"};
  fake.factor = 1;
  const RunningServer running(TestOptions(), fake);
  // A gray picture of 2 x 2.
  std::string picture = "P5\n2 2\n255\n";
  for (const int value : {10, 40, 30, 20}) picture += static_cast<char>(value);
  const SocketAnswer answer = Post(running.port(), "/v1/classify?k=2", picture);
#ifdef CREMA_HAVE_OPENCV
  EXPECT_EQ(answer.body,
            R"({"model":"m","version":"1","predictions":[{"index":1,"score":40,"label":"b"},)"
            R"({"index":2,"score":30,"label":"c"}]})");
#endif
#ifdef CREMA_HAVE_OPENCV
  EXPECT_EQ(Post(running.port(), "/v1/classify", "no picture").status, 400);
#else
  EXPECT_EQ(Post(running.port(), "/v1/classify", "no picture").status, 415);  // perhaps a PNG
#endif
  EXPECT_EQ(Post(running.port(), "/v1/classify?model=n", picture).status, 404);
  EXPECT_EQ(Post(running.port(), "/v1/classify?k=0", picture).status, 400);
  const RunningServer tensors;
  EXPECT_EQ(Post(tensors.port(), "/v1/classify", picture).status, 404);
}

TEST(Http, NamesTheMethodsThatAPathTakes) {
  const RunningServer running;
  const std::tuple<const char*, const char*, const char*> kWrong[] = {
      {"GET", "/v1/classify", "POST"},
      {"HEAD", "/v1/classify", "POST"},
      {"POST", "/v2/health/live", "GET, HEAD"},
      {"DELETE", "/v2/models/m/versions/1/infer", "POST"}};
  for (const auto& [method, path, allow] : kWrong) {
    SocketClient client(running.port());
    client.Send(StrCat(method, " ", path, " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"));
    const SocketAnswer answer = client.Read(std::string(method) != "HEAD");
    EXPECT_EQ(answer.status, 405) << method << path;
    EXPECT_EQ(answer.fields.at("allow"), allow) << method << path;
  }
}

TEST(Http, RefusesATakenPortAndABadAddress) {
  const RunningServer running;
  ServerOptions options = TestOptions();
  options.http.port = running.port();
  try {
    Server(options, NullSink());
    ADD_FAILURE() << "it listens on a taken port";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("choose another with --port"), std::string::npos)
        << error.what();
  }
  options.http.host = "nowhere";
  EXPECT_THROW(Server(options, NullSink()), Error);
  options = TestOptions();
  options.http.tls_cert = options.http.tls_key = "/missing.pem";
  EXPECT_THROW(Server(options, NullSink()), Error);
}

}  // namespace
}  // namespace crema::test
