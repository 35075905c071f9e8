// The meeting of processes that no MPI has started: each gets a connection to each other.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace crema {

// Owns a descriptor; below 0: none. Thread safety: one thread.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// The place of this process in a run.
struct TcpPlace {
  int rank = 0;
  int size = 1;
  std::string address = {};  // of rank 0: a name, or an IP address of version 4 or 6
  int port = 0;              // at which rank 0 listens
};

// Reads RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Under torchrun, whose agent listens at
// MASTER_PORT, the port is the next one. Throws kInvalidArgument with the variable that is wrong.
TcpPlace TcpPlaceOfEnvironment();

struct TcpPeer {
  Socket socket;     // non-blocking; none for this process itself
  std::string name;  // "rank 1 at 10.0.0.2"
};

// Waits up to `timeout` seconds until all processes of the run are connected. Returns the
// connections by rank. Strangers who connect are ignored. Calls `warn` after five seconds, with a
// text that says for whom it waits, and for the first stranger who sends as much as a rank: once
// each. Throws kInvalidArgument if the places of processes contradict each other or the port is
// taken, kDeviceFailure with those that have not come.
std::vector<TcpPeer> MeetByTcp(const TcpPlace& place, double timeout,
                               const std::function<void(const std::string&)>& warn);

}  // namespace crema
