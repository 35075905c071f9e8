// Clients that go away before their answer.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "server/running_server.h"

namespace crema::test {
namespace {

// A server whose model is held up in a request of `first`, so that others wait.
struct HeldServer {
  explicit HeldServer() {
    fake.gate = std::make_shared<Gate>();
    running = std::make_unique<RunningServer>(TestOptions(), fake);
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

// The server hears of it some time after the socket was closed here.
void AwaitHeard() { std::this_thread::sleep_for(std::chrono::milliseconds(200)); }

TEST(GoneClients, WhatWaitsForNobodyIsNotComputed) {
  for (const char* fields : {"", "Connection: close\r\n"}) {
    HeldServer held;
    {
      SocketClient gone(held.running->port());
      gone.Send(HeldServer::Request(fields));
      held.AwaitUnderWay(2);
    }
    AwaitHeard();
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

TEST(GoneClients, OneWhoseRequestIsBeingComputedHarmsNobody) {
  HeldServer held;
  held.first.reset();
  AwaitHeard();
  held.fake.gate->Open();
  held.AwaitUnderWay(0);
  SocketClient next(held.running->port());
  next.Send(HeldServer::Request());
  EXPECT_EQ(next.Read().status, 200);
}

// What has come of the next request meanwhile is not lost, whole or in part.
TEST(GoneClients, NextRequestsMayComeBeforeTheAnswer) {
  HeldServer held;
  const std::string next = HeldServer::Request();
  held.first->Send(next);
  AwaitHeard();
  held.first->Send(next.substr(0, 20));
  AwaitHeard();
  held.fake.gate->Open();
  EXPECT_EQ(held.first->Read().status, 200);
  EXPECT_EQ(held.first->Read().status, 200);
  held.first->Send(next.substr(20));
  EXPECT_EQ(held.first->Read().status, 200);
  EXPECT_EQ(held.running->model->runs().size(), 3U);
}

// The server ends the connection, with more of it still to be read.
TEST(GoneClients, AnswersThatEndAConnectionArriveWhole) {
  for (const bool sends_more : {false, true}) {
    FakeModelOptions fake;
    fake.gate = std::make_shared<Gate>();
    RunningServer running(TestOptions(), fake);
    fake.gate->Close();
    SocketClient client(running.port());
    client.Send(HeldServer::Request("Connection: close\r\n"));
    fake.gate->AwaitWaiting(1);
    if (sends_more) client.Send(std::string(100000, 'x'));
    AwaitHeard();
    fake.gate->Open();
    const SocketAnswer answer = client.Read();
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.body.find("\"outputs\""), std::string::npos);
    EXPECT_TRUE(client.IsClosed());
  }
}

// One who says that no more comes, and whose request is being computed, gets the answer.
TEST(GoneClients, AHalfClosedConnectionIsStillAnswered) {
  HeldServer held;
  held.first->EndSending();
  AwaitHeard();
  held.fake.gate->Open();
  EXPECT_EQ(held.first->Read().status, 200);
  EXPECT_TRUE(held.first->IsClosed());
}

}  // namespace
}  // namespace crema::test
