// The listening socket of gRPC. The library's own stops for good once descriptors run out
// (CVE-2023-4785), and takes any number of connections.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <unordered_map>

namespace crema::server {

// Counts the connections that gRPC holds. gRPC does not report when it closes one, so they are told
// by the inode of the socket behind each descriptor. Thread safety: one thread.
class OpenConnections {
 public:
  explicit OpenConnections(size_t most) : most_(most) {}
  // Counts `socket`. Returns false, and does not count it, when as many as allowed are open.
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

// Accepts connections on a thread of its own. Thread safety: one thread makes, starts, stops and
// destroys it; port() any.
class Acceptor {
 public:
  // Owns the socket from then on.
  using Take = std::function<void(int socket)>;
  // Whether connections can be accepted; called by the thread of the acceptor when that changes.
  using Report = std::function<void(bool accepts)>;

  // Listens on `host`, an address; `port` 0: any that is free. At most `connections` are open at
  // once; further ones are closed. Throws kIoFailure when it cannot listen.
  Acceptor(const std::string& host, int port, size_t connections);
  ~Acceptor() { Stop(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  int port() const { return port_; }
  // Accepts from now on, again and again when descriptors or memory have run out. Call it once.
  // What `take` throws is ignored. Throws std::system_error when no thread starts.
  void Start(Take take, Report report);
  // Takes the connections that wait, and then no more. Returns when that is so.
  void Stop();

 private:
  void Run(const Take& take, const Report& report);
  // Returns false when descriptors or memory have run out.
  bool AcceptWaiting(const Take& take);

  const Descriptor listener_;
  const Descriptor stop_;  // readable: end the thread
  int port_ = 0;
  OpenConnections open_;
  std::thread thread_;
};

}  // namespace crema::server
