#include "parallel/transport.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "core/error.h"
#include "core/module.h"
#include "core/strings.h"
#include "parallel/tcp_transport.h"

namespace crema {
namespace {

int NumberIn(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? std::atoi(value) : 0;
}
bool IsSeveral(const char* variable) { return NumberIn(variable) > 1; }

}  // namespace

std::string TransportOfLauncher() {
  if (IsSeveral("OMPI_COMM_WORLD_SIZE")) return "openmpi";
  if (IsSeveral("PMI_SIZE")) return "mpich";  // also mpiexec of Intel MPI, and srun --mpi=pmi2
  if (std::getenv("PMIX_RANK") != nullptr && IsSeveral("SLURM_NTASKS")) return "openmpi";
  const char* const processes = std::getenv("WORLD_SIZE");
  return processes != nullptr && std::string_view(processes) != "1" ? "tcp" : "";
}

int ProcessesOfLauncher() {
  return std::max({1, NumberIn("OMPI_COMM_WORLD_SIZE"), NumberIn("PMI_SIZE"),
                   NumberIn("SLURM_STEP_NUM_TASKS")});
}

std::shared_ptr<Transport> StartTransport(const std::string& kind, double timeout,
                                          const std::function<void(const std::string&)>& warn) {
  if (kind == "tcp") return MakeTcpTransport(TcpPlaceOfEnvironment(), timeout, warn);
  const bool open = kind == "openmpi";
  const std::string file = StrCat("libcrema_mpi_", kind, ".so");
  GetTransport start = nullptr;
  try {
    start = reinterpret_cast<GetTransport>(SymbolOfModule(file.c_str(), kGetTransport));
  } catch (const Error& error) {
    const std::string_view text = error.what();
    Fail(ErrorCode::kUnsupported,
         StrCat("the processes of this run meet by ", open ? "Open MPI" : "MPICH", ", and ",
                text.substr(0, text.find(". If it is")), ". Install ",
                open ? "libopenmpi-dev" : "libmpich-dev",
                " and build Crema with -DCREMA_MPI=ON, start with mpirun of the other MPI, or give "
                "--transport=none, with which each process trains for itself"));
  }
  try {
    return {std::shared_ptr<Transport>(), start()};  // it owns itself
  } catch (const std::exception& error) {
    Fail(ErrorCode::kDeviceFailure, StrCat("MPI cannot start: ", error.what()));
  }
}

}  // namespace crema
