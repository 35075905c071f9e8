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
  uint16_t port = 8000;            // 0: any free port
  std::string tls_cert;            // PEM file; empty: no TLS
  std::string tls_key;             // PEM file
  int threads = 2;
  // Beyond the limit, the connection that has waited longest for a request or for the rest of its
  // head is closed. If none waits, a few further connections may ask for health.
  size_t connections = 1024;
  std::chrono::milliseconds idle{60000};    // between requests
  std::chrono::milliseconds head{10000};    // for the whole head, and for the TLS handshake
  std::chrono::milliseconds body{30000};    // for the whole body
  std::chrono::milliseconds answer{30000};  // for sending the whole answer
                                            // Time for which a request stays valid after its client
                                            // has closed its side of the connection.
  std::chrono::milliseconds half_closed{1000};
  RequestLimits limits;
  bool only_local_pages = false;  // see RefuseForeignPages
  std::string cors_origin;        // pages of this origin may use the server; empty: none
};

// Thread safety: any number of threads.
class HttpServer {
 public:
  // Starts listening. Throws kIoFailure if the address is in use, kInvalidArgument for an invalid
  // address or TLS file.
  HttpServer(const HttpOptions& options, HttpHandler& handler);
  ~HttpServer();  // closes all connections
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  uint16_t port() const;
  // Reloads certificate and key for new connections. Throws like the constructor and keeps the old
  // ones then.
  void ReloadTls();
  // From now on, connections are closed after their next answer. Still accepts new ones, so that
  // probes learn that the server is not ready.
  void Drain();
  // Accepts the waiting connections, then stops. Returns when done.
  void StopAccepting();
  // Returns true if a request is being read or answered, or the end of an answer may not have been
  // received.
  bool busy() const;

 private:
  class Listener;
  std::unique_ptr<Listener> listener_;
};

}  // namespace crema::server
