// A server on a free port of 127.0.0.1 with one fake model `m`.
#pragma once

#include <memory>
#include <string>

#include "core/strings.h"
#include "server/fake_model.h"
#include "server/server.h"
#include "server/socket_client.h"

namespace crema::test {

inline server::ServerOptions TestOptions() {
  server::ServerOptions options;
  options.http.port = 0;
  return options;
}

struct RunningServer {
  explicit RunningServer(const server::ServerOptions& options = TestOptions(),
                         const FakeModelOptions& fake = {},
                         const server::BatcherOptions& batching = {})
      : model(std::make_shared<const FakeModel>(fake)), server(options, NullSink()) {
    server.ServeModel("m", model, batching);
  }
  uint16_t port() const { return server.http_port(); }

  std::shared_ptr<const FakeModel> model;
  server::Server server;
};

// One sample of four elements.
inline std::string GoodInfer() {
  return R"({"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]})";
}
// The same as a whole HTTP request.
inline std::string GoodInferRequest() {
  return StrCat("POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nContent-Length: ",
                GoodInfer().size(), "\r\n\r\n", GoodInfer());
}

}  // namespace crema::test
