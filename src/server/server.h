// The whole server: models, HTTP, gRPC, and how it ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

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
};

struct ServerOptions {
  HttpOptions http;
  GrpcOptions grpc;
  ApiOptions api;
  TokenSet inference_tokens;
  TokenSet admin_tokens;
  std::string version = "0";
  std::FILE* access_log = stdout;
};

// Whether this build has gRPC.
bool HasGrpc();

// Thread safety: one thread makes, drains and destroys it.
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

  // Not ready from now on, though what comes is still answered. Returns when nothing is in flight,
  // or after `most`; then what waits is refused. Whether all was answered.
  bool Drain(std::chrono::milliseconds most);

 private:
  class Parts;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace crema::server
