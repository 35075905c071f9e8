// Clients that disconnect before their answer.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "server/http/http_server.h"
#include "server/running_server.h"

namespace crema::test {
namespace {

// One thread for all connections, which handles what arrives in order.
server::ServerOptions OneThread() {
  server::ServerOptions options = TestOptions();
  options.http.threads = 1;
  return options;
}

// Waits until the server (OneThread) has handled what arrived before, such as the end of a
// connection: it then answers this probe.
void AwaitHeard(const RunningServer& running) {
  EXPECT_EQ(Get(running.port(), "/v2/health/live").status, 200);
}

// A server whose model is blocked by the request `first`, so that others wait.
struct HeldServer {
  explicit HeldServer(std::chrono::milliseconds half_closed = std::chrono::milliseconds(0)) {
    fake.gate = std::make_shared<Gate>();
    server::ServerOptions options = OneThread();
    options.http.half_closed = half_closed;
    running = std::make_unique<RunningServer>(options, fake);
    running->model->Forget();
    fake.gate->Close();
    first = std::make_unique<SocketClient>(running->port());
    first->Send(Request());
    fake.gate->AwaitWaiting(1);
  }

  static std::string Request(const std::string& fields = "") {
    return StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\n", fields,
                  "Content-Length: ", GoodInfer().size(), "\r\n\r\n", GoodInfer());
  }
  void AwaitUnderWay(int64_t count) const {
    while (running->server.service().in_flight != count) Pause();
  }
  bool Counted(const std::string& line) const {
    return running->server.service().metrics.Text().find(line) != std::string::npos;
  }
  static void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  FakeModelOptions fake;
  std::unique_ptr<RunningServer> running;
  std::unique_ptr<SocketClient> first;
};

TEST(GoneClients, RequestsOfGoneClientsAreNotComputed) {
  for (const char* fields : {"", "Connection: close\r\n"}) {
    HeldServer held;
    {
      SocketClient gone(held.running->port());
      gone.Send(HeldServer::Request(fields));
      held.AwaitUnderWay(2);
    }
    AwaitHeard(*held.running);
    SocketClient stays(held.running->port());
    stays.Send(HeldServer::Request(fields));
    held.AwaitUnderWay(3);
    held.fake.gate->Open();
    EXPECT_EQ(held.first->Read().status, 200);
    EXPECT_EQ(stays.Read().status, 200);
    held.AwaitUnderWay(0);
    EXPECT_EQ(held.running->model->runs(), (std::vector<int64_t>{1, 1})) << fields;
    EXPECT_TRUE(held.Counted("crema_refusals_total{cause=\"cancelled\"} 1")) << fields;
  }
}

TEST(GoneClients, ClientGoneDuringItsRequestDoesNotFailOthers) {
  HeldServer held;
  held.first.reset();
  AwaitHeard(*held.running);
  held.fake.gate->Open();
  held.AwaitUnderWay(0);
  SocketClient next(held.running->port());
  next.Send(HeldServer::Request());
  EXPECT_EQ(next.Read().status, 200);
}

// Bytes of the next request that arrive meanwhile are not lost.
TEST(GoneClients, NextRequestsMayComeBeforeTheAnswer) {
  HeldServer held;
  const std::string next = HeldServer::Request();
  held.first->Send(next);
  AwaitHeard(*held.running);
  held.first->Send(next.substr(0, 20));
  AwaitHeard(*held.running);
  held.fake.gate->Open();
  EXPECT_EQ(held.first->Read().status, 200);
  EXPECT_EQ(held.first->Read().status, 200);
  held.first->Send(next.substr(20));
  EXPECT_EQ(held.first->Read().status, 200);
  EXPECT_EQ(held.running->model->runs().size(), 3U);
}

// The server closes the connection while unread data is left.
TEST(GoneClients, AnswersThatEndAConnectionArriveWhole) {
  for (const bool sends_more : {false, true}) {
    FakeModelOptions fake;
    fake.gate = std::make_shared<Gate>();
    RunningServer running(OneThread(), fake);
    fake.gate->Close();
    SocketClient client(running.port());
    client.Send(HeldServer::Request("Connection: close\r\n"));
    fake.gate->AwaitWaiting(1);
    if (sends_more) client.Send(std::string(100000, 'x'));
    AwaitHeard(running);
    fake.gate->Open();
    const SocketAnswer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.body.find("\"outputs\""), std::string::npos);
    EXPECT_TRUE(client.IsClosed());
  }
}

// A half-closed connection gets its answer if the queue is not too long.
TEST(GoneClients, HalfClosedConnectionsAreStillAnswered) {
  HeldServer held(std::chrono::seconds(60));
  held.first->EndSending();
  SocketClient waits(held.running->port());
  waits.Send(HeldServer::Request());
  waits.EndSending();
  held.AwaitUnderWay(2);
  AwaitHeard(*held.running);
  held.fake.gate->Open();
  for (SocketClient* client : {held.first.get(), &waits}) {
    EXPECT_EQ(client->Read().status, 200);
    EXPECT_TRUE(client->IsClosed());
  }
  for (int i = 0; i < 50; ++i) {
    SocketClient client(held.running->port());
    client.Send(HeldServer::Request());
    client.EndSending();
    EXPECT_EQ(client.Read().status, 200);
  }
}

// A server handler defined by the test.
struct AnyHandler final : server::HttpHandler {
  size_t Admit(const server::HttpHead&) override { return 0; }
  void Handle(server::HttpRequest, server::HttpRespond respond) override {
    ++handled;
    handle(respond);
  }
  server::HttpResponse Explain(const server::RequestError&) override { return {}; }
  void Log(const server::HttpLogEntry&) override {
    ++logged;
    log();
  }
  void ConnectionsChanged(int change) override { connections += change; }
  void ReportFailure(const std::exception_ptr&) noexcept override {}

  std::function<void(const server::HttpRespond&)> handle;
  std::function<void()> log = [] {};
  std::atomic<int> connections{0}, handled{0}, logged{0};
};

void ExpectEnds(AnyHandler* handler, server::HttpOptions options, bool half_closes) {
  options.port = 0;
  server::HttpServer server(options, *handler);
  SocketClient client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  // An answer is logged when it begins.
  while ((half_closes ? handler->logged : handler->handled) == 0) HeldServer::Pause();
  if (half_closes) client.EndSending();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (handler->connections > 0 && std::chrono::steady_clock::now() < end) HeldServer::Pause();
  EXPECT_EQ(handler->connections, 0);
  EXPECT_FALSE(server.busy());
}

// Memory may run out while an answer is made, or before.
TEST(GoneClients, ALostAnswerEndsTheConnection) {
  AnyHandler drops;
  drops.handle = [](const server::HttpRespond&) {};
  ExpectEnds(&drops, {}, false);
  AnyHandler throws;
  throws.handle = [](const server::HttpRespond& respond) { respond({}); };
  throws.log = [] { throw std::bad_alloc(); };
  ExpectEnds(&throws, {}, false);
}

// A half-closed client that does not read has the usual time.
TEST(GoneClients, AnswersToHalfClosedConnectionsHaveTheirTime) {
  AnyHandler handler;
  handler.handle = [](const server::HttpRespond& respond) {
    server::HttpResponse large;
    large.body.resize(size_t{32} << 20);
    respond(std::move(large));
  };
  server::HttpOptions options;
  options.answer = std::chrono::milliseconds(500);
  options.half_closed = std::chrono::seconds(60);
  ExpectEnds(&handler, options, true);
}

}  // namespace
}  // namespace crema::test
