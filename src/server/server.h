// The whole server: models, HTTP, gRPC, and how it ends.
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
  int port = -1;         // 0: any that is free; -1: no gRPC
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
  // Files that the tokens came from: they and those of TLS over HTTP are read again when they
  // change. Empty: none.
  std::string inference_token_file;
  std::string admin_token_file;
  std::chrono::milliseconds file_poll{1000};  // how often these files are looked at
  std::string version = "0";
  int access_log = 1;  // file descriptor; stdout
};

// Whether this build has gRPC.
bool HasGrpc();
// Version of the gRPC library, such as "1.60.0"; empty in a build without gRPC.
std::string GrpcVersion();
// Whether gRPC of that version bounds the work of streams that are reset at once (CVE-2023-44487)
// and of header blocks without end: 1.60 and later do.
bool GrpcBoundsFloods(std::string_view version);

// Thread safety: one thread makes and destroys it and says what it serves; another may drain it
// meanwhile.
class Server {
 public:
  // Listens at once, so that probes hear that it is not ready yet. Throws what HttpServer throws;
  // kUnsupported for gRPC in a build without it.
  Server(const ServerOptions& options, LogSink& log);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // One of these two, once. Ready when they return. Throw Error for a model that cannot be loaded
  // and a folder that cannot be read; models of a repository that cannot be loaded only show in its
  // index.
  void ServeModel(const std::string& name, std::shared_ptr<const Executable> executable,
                  const BatcherOptions& batching);
  void ServeRepository(const RepositoryOptions& options, LoadExecutable load);

  uint16_t http_port() const;
  int grpc_port() const;  // -1: none
  Service& service() { return *service_; }

  // Not ready from now on. For `grace`, so that balancers hear of it, what comes is still answered;
  // then no connection is taken, and new requests on open ones get 503. Returns when nothing is in
  // flight and answers are on their way, or after `most`; then what waits is refused. Whether all
  // was answered.
  bool Drain(std::chrono::milliseconds most,
             std::chrono::milliseconds grace = std::chrono::milliseconds(500));

 private:
  class Parts;
  void BecomeReady();  // but for a server that ends

  std::unique_ptr<Service> service_;
  std::unique_ptr<Parts> parts_;
  std::mutex mutex_;
  bool draining_ = false;
};

}  // namespace crema::server
