// Messages between processes that mpirun or srun has started.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace crema {

// The MPI of this process. It exists once, and until the process ends. No call but End waits.
// Throws std::runtime_error with the text of MPI. Thread safety: any number of threads.
class Mpi {
 public:
  using Transfer = uint64_t;

  virtual ~Mpi() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string host() const = 0;

  // Start to transfer up to 2^31 - 1 bytes, which must stay until IsDone. A message is received
  // whole, from one rank in the order of sending; channels do not wait for each other.
  virtual Transfer Send(std::span<const std::byte> bytes, int to, int channel) = 0;
  virtual Transfer Receive(std::span<std::byte> bytes, int from, int channel) = 0;
  // Returns true once; then the transfer does not exist any more.
  virtual bool IsDone(Transfer transfer) = 0;
  // Returns the bytes of the next message if it has arrived.
  virtual std::optional<size_t> Arrived(int from, int channel) = 0;

  // Waits until all processes have called it. No other call may follow.
  virtual void End() = 0;
  // Ends all processes, this one with the code; the launcher returns it.
  virtual void Abort(int exit_code) noexcept = 0;
};

// Returns the kind of MPI whose launcher started this process together with others, by the
// variables that it set: "openmpi" or "mpich". Empty: it was started alone.
std::string MpiOfLauncher();

// Returns the number of processes that a launcher says it started with this one, by the same
// variables and those of srun; 1 without a launcher.
int ProcessesOfLauncher();

// Starts that MPI in this process, or returns it. Throws kUnsupported if libcrema_mpi_<kind>.so or
// a library that it needs is missing, kDeviceFailure if MPI fails.
Mpi& StartMpi(const std::string& kind);

// The function that each libcrema_mpi_<kind>.so exports: starts MPI, or returns it. Throws
// std::runtime_error.
using GetMpi = Mpi* (*)();
inline constexpr const char* kGetMpi = "CremaMpi1";

}  // namespace crema
