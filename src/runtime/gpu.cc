#include "runtime/gpu.h"

#include <dlfcn.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "core/error.h"
#include "core/strings.h"
#ifdef CREMA_HAVE_CUDA
#include "core/allocator.h"
#include "math/cuda/cuda_device.h"
#endif

namespace crema {

#ifdef CREMA_HAVE_CUDA

namespace {

struct GpuMemory {
  GpuMemory(int ordinal, int64_t limit)
      : all(MakeCudaAllocator(ordinal)),
        limited(*all, limit > 0 ? limit : std::numeric_limits<int64_t>::max()) {}
  std::unique_ptr<Allocator> all;
  LimitedAllocator limited;
};

// Returns a function of an optional library; null if it is missing. The library stays loaded.
void* SymbolIfThere(const char* file, const char* symbol) {
  void* library = dlopen(file, RTLD_LAZY | RTLD_LOCAL);
  return library == nullptr ? nullptr : dlsym(library, symbol);
}

std::string ThreeParts(int64_t version, int64_t major, int64_t minor) {
  return StrCat(version / major, ".", version % major / minor, ".", version % minor);
}

std::string CudnnVersion() {
  for (const char* file : {"libcudnn.so.9", "libcudnn.so.8"}) {
    const auto version = reinterpret_cast<size_t (*)()>(SymbolIfThere(file, "cudnnGetVersion"));
    if (version == nullptr) continue;
    const auto number = static_cast<int64_t>(version());
    return ThreeParts(number, number < 10000 ? 1000 : 10000, 100);
  }
  return "not found";
}

std::string NcclVersion() {
  const auto version =
      reinterpret_cast<int (*)(int*)>(SymbolIfThere("libnccl.so.2", "ncclGetVersion"));
  int number = 0;
  if (version == nullptr || version(&number) != 0) return "not found";
  return ThreeParts(number, 10000, 100);
}

}  // namespace

bool BuiltWithCuda() { return true; }
std::string WhyNoGpu() { return WhyNoCuda(); }
int GpuCount() { return CudaDeviceCount(); }

ComputeDevice OpenGpu(int ordinal, int64_t limit, bool graphs) {
  const std::string reason = WhyNoGpu();
  if (!reason.empty()) Fail(ErrorCode::kDeviceFailure, "no GPU can be used here: " + reason);
  if (ordinal < 0 || ordinal >= GpuCount()) {
    Fail(ErrorCode::kDeviceFailure,
         StrCat("there is no GPU ", ordinal, "; this machine has ", GpuCount(), ", from 0"));
  }
  const auto memory = std::make_shared<GpuMemory>(ordinal, limit);
  return {.device = {DeviceType::kCuda, ordinal},
          .gpu_context =
              [=](uint64_t seed) {
                return ExecContext(MakeCudaQueue(ordinal, graphs), memory->limited, seed);
              },
          .free_bytes = [=] { return std::min(memory->limited.free(), CudaInfo(ordinal).free); }};
}

GpuInfo InfoOfGpu(int ordinal) { return CudaInfo(ordinal); }
GpuRates MeasureGpuRates(int ordinal) { return MeasureCudaRates(ordinal); }

std::vector<std::pair<std::string, std::string>> GpuLibraries() {
  return {{"CUDA of the driver", CudaDriverVersion()},
          {"CUDA runtime", CudaRuntimeVersion()},
          {"cuBLAS", CublasVersion()},
          {"cuDNN", CudnnVersion()},
          {"NCCL", NcclVersion()}};
}

#else

bool BuiltWithCuda() { return false; }
std::string WhyNoGpu() {
  return "this program was built without CUDA (cmake -DCREMA_CUDA=ON builds with it)";
}
int GpuCount() { return 0; }
ComputeDevice OpenGpu(int, int64_t, bool) { Fail(ErrorCode::kDeviceFailure, WhyNoGpu()); }
GpuInfo InfoOfGpu(int) { Fail(ErrorCode::kDeviceFailure, WhyNoGpu()); }
GpuRates MeasureGpuRates(int) { Fail(ErrorCode::kDeviceFailure, WhyNoGpu()); }
std::vector<std::pair<std::string, std::string>> GpuLibraries() { return {}; }

#endif

}  // namespace crema
