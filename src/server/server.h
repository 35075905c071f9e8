// The whole server: models, HTTP, gRPC, and shutdown.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/log.h"
#include "server/http/api.h"
#include "server/http/http_server.h"
#include "server/repository/repository.h"
#include "server/security/tokens.h"

namespace crema::server {

struct GrpcOptions {
  std::string host = "127.0.0.1";
  int port = -1;         // 0: any free port; -1: no gRPC
  std::string tls_cert;  // PEM file; empty: no TLS
  std::string tls_key;
  size_t connections = 1024;  // further ones are closed
};

struct ServerOptions {
  HttpOptions http;
  GrpcOptions grpc;
  ApiOptions api;
  TokenSet inference_tokens;
  TokenSet admin_tokens;
  // Source files of the tokens. They and the TLS files of HTTP are reloaded when they change.
  // Empty: none.
  std::string inference_token_file;
  std::string admin_token_file;
  std::chrono::milliseconds file_poll{1000};  // poll interval for these files
  std::string version = "0";
  int access_log = 1;  // file descriptor, by default stdout
};

// Returns true if this build has gRPC.
bool HasGrpc();
// Returns the version of the gRPC library, such as "1.60.0"; empty in a build without gRPC.
std::string GrpcVersion();
// Returns true if that version of gRPC limits the work of rapidly reset streams (CVE-2023-44487)
// and of endless header blocks: 1.60 and later.
bool GrpcBoundsFloods(std::string_view version);

// Thread safety: one thread makes and destroys it and sets its models; another may drain it
// meanwhile.
class Server {
 public:
  // Listens at once, so that probes learn that it is not ready yet. Throws what HttpServer throws;
  // kUnsupported for gRPC in a build without it.
  Server(const ServerOptions& options, LogSink& log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Call one of these two, once. The server is ready when they return. Throw Error for a model that
  // cannot be loaded or a folder that cannot be read. A model of a repository that cannot be loaded
  // only appears in its index.
  void ServeModel(const std::string& name, std::shared_ptr<const Executable> executable,
                  const BatcherOptions& batching);
  void ServeRepository(const RepositoryOptions& options, LoadExecutable load);

  uint16_t http_port() const;
  int grpc_port() const;  // -1: no gRPC
  Service& service() { return *service_; }

  // Shuts down gracefully. The server is not ready from now on. For `grace`, so that load balancers
  // notice, it still answers everything. Then it accepts no connections, and answers new requests
  // on open ones with 503. Returns when nothing is in progress and answers are sent, or after
  // `most`, refusing waiting requests. Returns true if all requests were answered.
  bool Drain(std::chrono::milliseconds most,
             std::chrono::milliseconds grace = std::chrono::milliseconds(500));

 private:
  class Parts;
  void BecomeReady();  // unless the server is shutting down

  std::unique_ptr<Service> service_;
  std::unique_ptr<Parts> parts_;
  std::mutex mutex_;
  bool draining_ = false;
};

}  // namespace crema::server
