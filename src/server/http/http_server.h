// HTTP/1.1 over TCP, with or without TLS.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http/message.h"
#include "server/limits.h"

namespace crema::server {

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address
  uint16_t port = 8000;            // 0: any that is free
  std::string tls_cert;            // PEM file; empty: no TLS
  std::string tls_key;             // PEM file
  int threads = 2;
  // For a further one, that which has waited longest for a request, or for the rest of its head, is
  // closed. Where none waits, a few more may ask for health.
  size_t connections = 1024;
  std::chrono::milliseconds idle{60000};    // between requests
  std::chrono::milliseconds head{10000};    // for a whole head, and for the handshake of TLS
  std::chrono::milliseconds body{30000};    // for a whole body
  std::chrono::milliseconds answer{30000};  // to take a whole answer
  // For which a request waits on whose client has closed its side of the connection.
  std::chrono::milliseconds half_closed{1000};
  RequestLimits limits;
  bool only_local_pages = false;  // see RefuseForeignPages
};

// Thread safety: any number of threads.
class HttpServer {
 public:
  // Listens. Throws kIoFailure where the address is taken, kInvalidArgument where it is none or a
  // TLS file is no good.
  HttpServer(const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();  // cuts all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // Reads certificate and key again, for connections to come. Throws as the constructor; then the
  // old ones stay.
  void ReloadTls();
  // From here on connections are closed with their next answer. New ones are still taken, so that
  // those who ask hear that the server is not ready.
  void Drain();
  // Takes the connections that are there already, and then no more. Returns when that is so.
  void StopAccepting();
  // Whether a request is being read or answered, or the end of an answer may not be taken yet.
  bool busy() const;

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace crema::server
