// Messages between the processes of a run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace crema {

// Carries the messages of this process, by MPI or TCP. No call but End waits. Throws Error, or
// std::runtime_error with the text of MPI. Thread safety: any number of threads.
class Transport {
 public:
  using Transfer = uint64_t;

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;

  // Start to transfer up to 2^31 - 1 bytes, which must stay until IsDone. A message is received
  // whole, from one rank in the order of sending; channels, 0 to 16, do not wait for each other.
  virtual Transfer Send(std::span<const std::byte> bytes, int to, int channel) = 0;
  virtual Transfer Receive(std::span<std::byte> bytes, int from, int channel) = 0;
  // Returns true once; then the transfer does not exist any more.
  virtual bool IsDone(Transfer transfer) = 0;
  // Returns the bytes of the next message if it has arrived.
  virtual std::optional<size_t> Arrived(int from, int channel) = 0;

  // Waits until all processes have called it. No other call may follow.
  virtual void End() = 0;
  // Ends all processes with the code. May return: then this one must end itself.
  virtual void Abort(int exit_code) noexcept = 0;
};

// Returns the kind of transport of this process, by the variables of its launcher: "openmpi",
// "mpich" or, if WORLD_SIZE is set, "tcp". Empty: it was started alone.
std::string TransportOfLauncher();

// Returns the number of processes that a launcher says it started with this one, by the same
// variables and those of srun; 1 without a launcher.
int ProcessesOfLauncher();

// Starts the transport. MPI exists once in a process: another call returns the same. TCP waits for
// the other processes as MakeTcpTransport does; `timeout` and `warn` are for it. Throws
// kUnsupported if libcrema_mpi_<kind>.so or a library that it needs is missing, kDeviceFailure if
// MPI fails, and like MakeTcpTransport.
std::shared_ptr<Transport> StartTransport(const std::string& kind, double timeout,
                                          const std::function<void(const std::string&)>& warn);

// The function that each libcrema_mpi_<kind>.so exports: starts MPI, or returns it. Throws
// std::runtime_error.
using GetTransport = Transport* (*)();
inline constexpr const char* kGetTransport = "CremaMpi1";

}  // namespace crema
