// The listening socket of gRPC. gRPC's own listener stops permanently when descriptors run out
// (CVE-2023-4785), and does not limit the number of connections.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>

namespace crema::server {

// Counts the connections that gRPC holds. gRPC does not report closed connections, so compares the
// inode of the socket of each descriptor. Thread safety: one thread.
class OpenConnections {
 public:
  explicit OpenConnections(size_t most) : most_(most) {}
  // Counts `socket`. Returns false, without counting it, if the limit is reached.
  bool Add(int socket);

 private:
  void Sweep();

  const size_t most_;
  std::unordered_map<int, ino_t> inodes_;
  std::chrono::steady_clock::time_point next_sweep_;
};

// A file descriptor, closed by the destructor. Thread safety: one thread.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return number_; }

 private:
  const int number_;
};

// Accepts connections on its own thread. Thread safety: one thread makes, starts, stops and
// destroys it; port() any.
class Acceptor {
 public:
  // Takes ownership of the socket.
  using Take = std::function<void(int socket)>;
  // Called on the acceptor's thread whenever it becomes able or unable to accept connections.
  using Report = std::function<void(bool accepts)>;

  // Listens on `host`, an address; `port` 0: any free port. Keeps at most `connections` open and
  // closes further ones. Throws kIoFailure if it cannot listen.
  Acceptor(const std::string& host, int port, size_t connections);
  ~Acceptor() { Stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }
  // Starts accepting; retries when descriptors or memory have run out. Call it once. Ignores
  // exceptions of `take`. Throws std::system_error if the thread cannot be started.
  void Start(Take take, Report report);
  // Accepts the waiting connections, then stops. Returns when done.
  void Stop();

 private:
  void Run(const Take& take, const Report& report);
  // Returns false if descriptors or memory have run out.
  bool AcceptWaiting(const Take& take);

  const Descriptor listener_;
  const Descriptor stop_;  // readable: end the thread
  int port_ = 0;
  OpenConnections open_;
  std::thread thread_;
};

}  // namespace crema::server
