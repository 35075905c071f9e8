// libcrema_mpi_openmpi.so and libcrema_mpi_mpich.so: the same code for two binary interfaces.
#include <dlfcn.h>

#include "parallel/transport.h"
// The C++ bindings of old are in libraries of their own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <stdexcept>

namespace crema {
namespace {

void Check(int code) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw std::runtime_error(text.data());
}

// Calls into MPI one at a time (MPI_THREAD_SERIALIZED), which all implementations do fast.
class MpiImpl final : public Transport {
 public:
  MpiImpl() {
    // Open MPI loads parts of itself that look for its symbols among the global ones.
    Dl_info own{};
    if (::dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &own) != 0) {
      ::dlopen(own.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
    }
#ifdef OPEN_MPI
    // Open MPI otherwise sends and receives large messages by turns: 48 MB each way over 1 Gbit/s
    // took 720 ms, with this 588 (bench/results/scale.md).
    ::setenv("OMPI_MCA_btl_tcp_rdma_pipeline_frag_size", "262144", 0);
#endif
    int level = 0;
    Check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level));
    if (level < MPI_THREAD_SERIALIZED) throw std::runtime_error("it was built without threads");
    Check(MPI_Comm_dup(MPI_COMM_WORLD, &world_));
    Check(MPI_Comm_set_errhandler(world_, MPI_ERRORS_RETURN));
    Check(MPI_Comm_rank(world_, &rank_));
    Check(MPI_Comm_size(world_, &size_));
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string host() const override {
    std::array<char, MPI_MAX_PROCESSOR_NAME + 1> name{};
    int length = 0;
    const std::lock_guard lock(mutex_);
    Check(MPI_Get_processor_name(name.data(), &length));
    return name.data();
  }

  Transfer Send(std::span<const std::byte> bytes, int to, int channel) override {
    MPI_Request request{};
    const std::lock_guard lock(mutex_);
    Check(MPI_Isend(bytes.data(), Count(bytes.size()), MPI_BYTE, to, channel, world_, &request));
    return TransferOf(request);
  }
  Transfer Receive(std::span<std::byte> bytes, int from, int channel) override {
    MPI_Request request{};
    const std::lock_guard lock(mutex_);
    Check(MPI_Irecv(bytes.data(), Count(bytes.size()), MPI_BYTE, from, channel, world_, &request));
    return TransferOf(request);
  }
  bool IsDone(Transfer transfer) override {
    MPI_Request request{};
    std::memcpy(&request, &transfer, sizeof(request));
    int done = 0;
    const std::lock_guard lock(mutex_);
    Check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    return done != 0;
  }
  std::optional<size_t> Arrived(int from, int channel) override {
    int arrived = 0;
    int bytes = 0;
    MPI_Status status{};
    const std::lock_guard lock(mutex_);
    Check(MPI_Iprobe(from, channel, world_, &arrived, &status));
    if (arrived == 0) return std::nullopt;
    Check(MPI_Get_count(&status, MPI_BYTE, &bytes));
    return static_cast<size_t>(bytes);
  }

  void End() override {
    const std::lock_guard lock(mutex_);
    Check(MPI_Comm_free(&world_));
    Check(MPI_Finalize());
  }
  void Abort(int exit_code) noexcept override { MPI_Abort(MPI_COMM_WORLD, exit_code); }

 private:
  static int Count(size_t bytes) {
    if (bytes > static_cast<size_t>(INT32_MAX)) throw std::runtime_error("a message of 2 GiB");
    return static_cast<int>(bytes);
  }
  static Transfer TransferOf(MPI_Request request) {
    static_assert(sizeof(MPI_Request) <= sizeof(Transfer));
    Transfer transfer = 0;
    std::memcpy(&transfer, &request, sizeof(request));
    return transfer;
  }

  mutable std::mutex mutex_;
  MPI_Comm world_{};
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace
}  // namespace crema

extern "C" crema::Transport* CremaMpi1() {
  static const auto mpi = new crema::MpiImpl;  // never destroyed: Finalize comes from End
  return mpi;
}
