// Limits on memory, connections and threads per client.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <new>
#include <thread>
#include <vector>

#include "core/strings.h"
#include "server/batching/batcher.h"
#include "server/running_server.h"
#include "server/secret.h"
#include "support/temp_dir.h"

namespace crema::test {
namespace {

using namespace server;
using namespace std::chrono_literals;

std::string Live() { return "GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"; }

std::string HeadOf(const std::string& path, const std::string& fields) {
  return StrCat("POST ", path, " HTTP/1.1\r\nHost: x\r\n", fields, "\r\n\r\n");
}

TEST(Limits, ATrailerDoesNotEndTheServer) {
  const RunningServer running;
  for (const size_t size : {100, 65535, 65536, 200000}) {
    SocketClient client(running.port());
    client.Send(HeadOf("/v2/models/m/infer", "Transfer-Encoding: chunked") +
                "0\r\nX: " + std::string(size, 'b') + "\r\n\r\n");
    EXPECT_EQ(client.Read().status, 400) << size;
  }
  EXPECT_EQ(Get(running.port(), "/v2/health/live").status, 200);
}

TEST(Limits, TheLargestBodyIsSaidInMiB) {
  ServerOptions options = TestOptions();
  options.http.limits.body_bytes = size_t{1} << 20;
  const RunningServer running(options);
  SocketClient client(running.port());
  client.Send(HeadOf("/v2/models/m/infer", "Content-Length: 73400320"));
  const SocketAnswer answer = client.Read();
  EXPECT_EQ(answer.status, 413);
  EXPECT_NE(answer.body.find("the body is longer than 1 MiB"), std::string::npos) << answer.body;
}

TEST(Limits, UnsentBodiesTakeNothingFromOthers) {
  ServerOptions options = TestOptions();
  options.http.limits.buffered_bytes = size_t{1} << 18;
  options.http.limits.body_bytes = size_t{1} << 20;
  RunningServer running(options);
  std::vector<std::unique_ptr<SocketClient>> stalled;
  for (const char* form : {"Content-Length: 1048576", "Transfer-Encoding: chunked"}) {
    for (int i = 0; i < 4; ++i) {
      stalled.push_back(std::make_unique<SocketClient>(running.port()));
      stalled.back()->Send(HeadOf("/v2/models/m/infer", form));
    }
  }
  while (running.server.service().metrics.Text().find("crema_http_connections 8") ==
         std::string::npos) {
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(Post(running.port(), "/v2/models/m/infer", GoodInfer()).status, 200);
  // Only received bytes count.
  stalled[0]->Send(std::string(1 << 19, ' '));
  EXPECT_EQ(stalled[0]->Read().status, 503);
}

TEST(Limits, UnknownModelsAreRefusedBeforeTheBodyComes) {
  const RunningServer running;
  for (const char* path : {"/v2/models/n/infer", "/v2/models/m/versions/7/infer",
                           "/v1/classify?model=n", "/nothing"}) {
    SocketClient client(running.port());
    client.Send(HeadOf(path, "Content-Length: 1000"));
    EXPECT_EQ(client.Read().status, 404) << path;
  }
}

TEST(Limits, AnAnswerThatDoesNotFitIsRefused) {
  ServerOptions options = TestOptions();
  options.http.limits.buffered_bytes = 150;  // the request is shorter, the answer is not
  const RunningServer running(options);
  const SocketAnswer answer = Post(running.port(), "/v2/models/m/infer", GoodInfer());
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.fields.at("retry-after"), "1");
}

TEST(Limits, TheLongestIdleConnectionMakesRoom) {
  ServerOptions options = TestOptions();
  options.http.connections = 4;
  options.http.threads = 1;  // so that they become idle in order
  const RunningServer running(options);
  std::vector<std::unique_ptr<SocketClient>> idle;
  for (int i = 0; i < 4; ++i) {
    idle.push_back(std::make_unique<SocketClient>(running.port()));
    idle.back()->Send(Live());
    ASSERT_EQ(idle.back()->Read().status, 200);
  }
  EXPECT_EQ(Get(running.port(), "/v2/health/ready").status, 200);
  EXPECT_TRUE(idle[0]->IsClosed());
  idle[3]->Send(Live());
  EXPECT_EQ(idle[3]->Read().status, 200);
}

void AwaitConnections(RunningServer& running, int count) {
  const std::string row = StrCat("crema_http_connections ", count, "\n");
  while (running.server.service().metrics.Text().find(row) == std::string::npos) {
    std::this_thread::sleep_for(1ms);
  }
}

TEST(Limits, TheOldestHalfHeadMakesRoom) {
  ServerOptions options = TestOptions();
  options.http.connections = 2;
  RunningServer running(options);
  SocketClient one(running.port());
  one.Send("GET ");
  AwaitConnections(running, 1);
  std::vector<std::unique_ptr<SocketClient>> others;
  for (int i = 0; i < 100; ++i) {
    others.push_back(std::make_unique<SocketClient>(running.port()));
    others.back()->Send("GET ");
  }
  EXPECT_TRUE(one.IsClosed());
  EXPECT_EQ(Get(running.port(), "/v2/models/m").status, 200);
  EXPECT_EQ(Get(running.port(), "/v2/health/ready").status, 200);
}

// Clients that have sent a head but not its body.
std::vector<std::unique_ptr<SocketClient>> HalfBodies(uint16_t port, int count) {
  std::vector<std::unique_ptr<SocketClient>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<SocketClient>(port));
    clients.back()->Send(HeadOf("/v2/models/m/infer", "Content-Length: 9\r\nExpect: 100-continue"));
    EXPECT_EQ(clients.back()->Read(false).status, 100);
  }
  return clients;
}

TEST(Limits, OnlyHealthIsAnsweredWhenAllConnectionsAreTaken) {
  ServerOptions options = TestOptions();
  options.http.connections = 2;
  RunningServer running(options);
  const auto busy = HalfBodies(running.port(), 2);
  std::vector<std::unique_ptr<SocketClient>> half_heads;
  for (int i = 0; i < 100; ++i) {
    half_heads.push_back(std::make_unique<SocketClient>(running.port()));
    half_heads.back()->Send("GET ");
  }
  for (int i = 0; i < 20; ++i) {
    const SocketAnswer health = Get(running.port(), "/v2/health/live");
    EXPECT_EQ(health.status, 200);
    EXPECT_EQ(health.fields.at("connection"), "close");
    const SocketAnswer other = Get(running.port(), "/v2/models/m");
    EXPECT_EQ(other.status, 503);
    EXPECT_EQ(other.fields.at("connection"), "close");
  }
}

TEST(Limits, ABatcherOutlivesWhatItsCallersThrow) {
  std::promise<bool> good;
  Batcher batcher(std::make_shared<const FakeModel>(), {});
  const auto submit = [&](InferDone done) {
    InferRequest request;
    request.inputs.push_back({"x", Shape{1, 4}, {1, 2, 3, 4}, {}, {}});
    batcher.Submit(std::move(request), 1, std::move(done));
  };
  submit([](const InferOutcome&) { throw std::bad_alloc(); });
  submit([&](const InferOutcome& outcome) { good.set_value(!outcome.failure); });
  std::future<bool> answer = good.get_future();
  ASSERT_EQ(answer.wait_for(60s), std::future_status::ready);
  EXPECT_TRUE(answer.get());
}

TEST(Limits, AWorkPoolOutlivesWhatItsWorkThrows) {
  std::promise<void> done;
  WorkPool pool(1, 8);
  pool.Submit([] { throw std::bad_alloc(); });
  pool.Submit([&] { done.set_value(); });
  EXPECT_EQ(done.get_future().wait_for(60s), std::future_status::ready);
}

TEST(Limits, AFullWorkPoolStillFinishesAcceptedRequests) {
  Gate gate;
  gate.Close();
  std::promise<void> finished;
  WorkPool pool(1, 1);
  pool.Submit([&] { gate.Pass(); });
  gate.AwaitWaiting(1);
  pool.Submit([] {});
  EXPECT_THROW(pool.Submit([] {}), RequestError);
  EXPECT_NO_THROW(pool.SubmitAccepted([&] { finished.set_value(); }));
  gate.Open();
  EXPECT_EQ(finished.get_future().wait_for(60s), std::future_status::ready);
}

TEST(Limits, LoadingKeepsNoPicturesWaiting) {
  const TempDir folder;
  ServerOptions options = TestOptions();
  options.api.work_threads = 1;
  options.admin_tokens = TokenSet::FromFile(WriteSecret(folder, "a", kAdminToken));
  for (const char* model : {"a", "b", "c"}) {
    std::filesystem::create_directories(folder.File(StrCat("models/", model, "/1")));
    folder.Write(StrCat("models/", model, "/1/model.crema"), "file");
  }
  Gate gate;
  Server server(options, NullSink());
  RepositoryOptions repository;
  repository.path = folder.File("models");
  repository.poll = repository.settle = 0ms;
  server.ServeRepository(repository, [&](const std::string&, const VersionFiles&) {
    gate.Pass();
    FakeModelOptions fake;
    fake.picture = true;
    return std::make_shared<const FakeModel>(fake);
  });
  const std::string token = StrCat("Authorization: Bearer ", kAdminToken, "\r\n");
  ASSERT_EQ(Post(server.http_port(), "/v2/repository/models/b/unload", "", token).status, 200);
  gate.Close();
  SocketClient load(server.http_port());
  load.Send(StrCat("POST /v2/repository/models/b/load HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n",
                   token, "\r\n"));
  gate.AwaitWaiting(1);
  EXPECT_EQ(Post(server.http_port(), "/v1/classify?model=a", "no picture").status / 100, 4);
  gate.Open();
  EXPECT_EQ(load.Read().status, 200);
}

TEST(Limits, WhatClientsMayWriteIsTaken) {
  const RunningServer running;
  EXPECT_EQ(Get(running.port(), "http://127.0.0.1:80/v2/health/live").status, 200);
  EXPECT_EQ(Get(running.port(), "HTTP://x").status, 200);
  EXPECT_EQ(Get(running.port(), "/v2/health/live",
                "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n")
                .status,
            200);
  SocketClient polite(running.port());
  polite.Send(HeadOf("/v2/models/m/infer",
                     StrCat("Expect: 100-Continue\r\nContent-Length: ", GoodInfer().size())));
  EXPECT_EQ(polite.Read(false).status, 100);
  polite.Send(GoodInfer());
  EXPECT_EQ(polite.Read().status, 200);
}

}  // namespace
}  // namespace crema::test
