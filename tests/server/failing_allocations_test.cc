// The server when allocations fail during a request.
#include "support/failing_calls.h"
#ifdef CREMA_FAILING_CALLS
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "core/strings.h"
#include "server/serve_process.h"
#include "server/socket_client.h"

namespace crema::test {
namespace {

constexpr char kAllocatingNet[] = R"(
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 2 dim: 2 } } }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool"
  pooling_param { pool: AVE global_pooling: true } }
)";
constexpr char kInfer[] = R"({"inputs":[{"name":"data","shape":[1,3,2,2],"datatype":"FP32",)"
                          R"("data":[1,2,3,4,5,6,7,8,9,10,11,12]}]})";

class FailingAllocationsOfServe : public ServeCommand {
 protected:
  FailingAllocationsOfServe() {
    wrapper = allocations_.Wrapper();
    folder.Write("pool.prototxt", kAllocatingNet);
    Start({StrCat("--model=", folder.File("pool.prototxt")), "--grpc_port=-1"});
  }

  static std::string Request(const char* path, const std::string& body, bool keeps = false) {
    return StrCat(body.empty() ? "GET" : "POST", " ", path, " HTTP/1.1\r\nHost: localhost\r\n",
                  keeps ? "" : "Connection: close\r\n", "Content-Length: ", body.size(), "\r\n\r\n",
                  body);
  }

  // Sends the request while allocations fail: from the first on, then from the second on, and so
  // on. It must be answered, or its connection closed, and the next one must be answered.
  void Sweep(const std::string& request, int64_t count) {
    const int64_t before = allocations_.calls();
    ASSERT_EQ(Ask(port, request).status, 200);
    const int64_t all = allocations_.calls() - before;
    for (int64_t at = 1; at <= all; ++at) {
      SocketClient client(port);
      allocations_.Fail(at, count);
      client.Send(request);
      const SocketAnswer answer = client.Read();
      ASSERT_TRUE(answer.status > 0 || client.IsClosed()) << "no answer at allocation " << at;
      if (answer.status == 200 && answer.fields.at("connection") == "keep-alive") {
        client.Send(request);  // the failure may come after the first answer
        ASSERT_TRUE(client.Read().status > 0 || client.IsClosed()) << at;
      }
      allocations_.FailNone();
      ASSERT_TRUE(process->IsRunning()) << "ended at allocation " << at << folder.Read("err");
      ASSERT_EQ(Ask(port, request).status, 200) << "after allocation " << at;
    }
  }

  void TearDown() override {
    process->Signal(SIGTERM);
    EXPECT_EQ(process->Wait(), 0) << folder.Read("err");
  }

  FailingCalls allocations_;
};

TEST_F(FailingAllocationsOfServe, OnceInAnInference) {
  Sweep(Request("/v2/models/pool/infer", kInfer), 1);
}

TEST_F(FailingAllocationsOfServe, OnceOnAConnectionThatStays) {
  Sweep(Request("/v2/models/pool/infer", kInfer, true), 1);
}

TEST_F(FailingAllocationsOfServe, ManyInAnInference) {
  for (const int64_t count : {2, 5, 100}) Sweep(Request("/v2/models/pool/infer", kInfer), count);
}

TEST_F(FailingAllocationsOfServe, InQuestions) {
  for (const char* path : {"/v2/health/ready", "/v2/models/pool", "/metrics"}) {
    for (const int64_t count : {1, 20}) Sweep(Request(path, ""), count);
  }
}

}  // namespace
}  // namespace crema::test
#endif
