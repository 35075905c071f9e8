#ifdef __CUDACC__
#include <algorithm>
#include <memory>

#include "core/error.h"
#include "core/strings.h"
#include "core/tensor.h"
#include "math/cuda/check.h"
#include "math/cuda/cublas.h"
#include "math/cuda/cuda_device.h"
#include "math/cuda/cuda_info.h"
#include "math/cuda/cuda_queue.h"
#include "math/cuda/launch.cuh"

namespace crema {
namespace {

constexpr const char* kNoVersion = "not found";

std::string VersionOf(int version) {
  if (version == 0) return kNoVersion;
  return StrCat(version / 1000, ".", version % 1000 / 10);
}

// Page-locked memory of the host.
class PageLocked {
 public:
  explicit PageLocked(size_t bytes) {
    CheckCuda(cudaMallocHost(&memory_, bytes), "cudaMallocHost");
  }
  ~PageLocked() { cudaFreeHost(memory_); }
  PageLocked(const PageLocked&) = delete;
  PageLocked& operator=(const PageLocked&) = delete;
  void* get() const { return memory_; }

 private:
  void* memory_ = nullptr;
};

class Event {
 public:
  Event() { CheckCuda(cudaEventCreate(&event_), "cudaEventCreate"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Returns the best of several rounds, in `work` per second; `body` queues one piece of work.
template <typename Body>
double BestRate(const CudaQueue& queue, double work, const Body& body) {
  constexpr int kRounds = 5, kPieces = 8;
  const Event begin, end;
  body();
  double best = 0;
  for (int round = 0; round < kRounds; ++round) {
    CheckCuda(cudaEventRecord(begin.get(), queue.stream()), "cudaEventRecord");
    for (int piece = 0; piece < kPieces; ++piece) body();
    CheckCuda(cudaEventRecord(end.get(), queue.stream()), "cudaEventRecord");
    CheckCuda(cudaEventSynchronize(end.get()), "cudaEventSynchronize");
    float milliseconds = 0;
    CheckCuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    if (milliseconds > 0) best = std::max(best, 1e3 * kPieces * work / milliseconds);
  }
  return best;
}

constexpr int64_t kCopied = int64_t{64} << 20;  // bytes

void MeasureCopies(const CudaQueue& queue, void* a, void* b, GpuRates* rates) {
  const PageLocked host(kCopied);
  const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
    CheckCuda(cudaMemcpyAsync(to, from, kCopied, kind, queue.stream()), "cudaMemcpyAsync");
  };
  constexpr double kWork = 1e-9 * static_cast<double>(kCopied);
  rates->to_gpu_gbs = BestRate(queue, kWork, [&] { copy(a, host.get(), cudaMemcpyHostToDevice); });
  rates->from_gpu_gbs =
      BestRate(queue, kWork, [&] { copy(host.get(), a, cudaMemcpyDeviceToHost); });
  rates->copy_gbs = BestRate(queue, 2 * kWork, [&] { copy(b, a, cudaMemcpyDeviceToDevice); });
}

// Zeros would be multiplied faster than other numbers, as they toggle no bits.
template <typename T>
void FillWithNoise(const CudaQueue& queue, void* memory) {
  T* to = static_cast<T*>(memory);
  ForElements(queue, "FillWithNoise", kCopied / static_cast<int64_t>(sizeof(T)),
              [=] CREMA_HOST_DEVICE(int64_t i) {
                const auto drawn = static_cast<uint32_t>(i) * 2654435761U;
                to[i] = FromFloat<T>(static_cast<float>(drawn >> 8) * 0x1p-23F - 1);
              });
}

double ProductRate(const CudaQueue& queue, cudaDataType_t type, cublasComputeType_t compute,
                   const void* a, const void* b, void* c) {
  constexpr int64_t kSize = 4096;
  constexpr double kWork = 2e-9 * kSize * kSize * kSize;
  const float one = 1, zero = 0;
  return BestRate(queue, kWork, [&] {
    CheckCublas(
        Cublas().gemm(queue.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, kSize, kSize, kSize, &one, a, type,
                      kSize, b, type, kSize, &zero, c, type, kSize, compute, CUBLAS_GEMM_DEFAULT),
        "cublasGemmEx");
  });
}

}  // namespace

std::string WhyNoCuda() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess && count > 0) return "";
  cudaGetLastError();  // clears the error
  if (CudaDriverVersion() == kNoVersion) return "no NVIDIA driver is installed";
  if (status == cudaSuccess) return "the NVIDIA driver finds no GPU";
  return StrCat("the NVIDIA driver gives no GPU: ", cudaGetErrorString(status));
}

GpuInfo CudaInfo(int ordinal) {
  cudaDeviceProp properties{};
  CheckCuda(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  CheckCuda(cudaSetDevice(ordinal), "cudaSetDevice");
  size_t free = 0, total = 0;
  CheckCuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.name = properties.name,
          .major = properties.major,
          .minor = properties.minor,
          .processors = properties.multiProcessorCount,
          .memory = static_cast<int64_t>(total),
          .free = static_cast<int64_t>(free)};
}

GpuRates MeasureCudaRates(int ordinal) {
  const std::unique_ptr<Allocator> memory = MakeCudaAllocator(ordinal);
  const CudaQueue queue(ordinal, true);
  Tensor a({kCopied / 4}, DType::kF32, *memory), b({kCopied / 4}, DType::kF32, *memory);
  Tensor c({kCopied / 4}, DType::kF32, *memory);
  void *const x = a.view().raw(), *const y = b.view().raw(), *const z = c.view().raw();
  GpuRates rates;
  MeasureCopies(queue, x, y, &rates);
  FillWithNoise<float>(queue, x);
  FillWithNoise<float>(queue, y);
  rates.f32_gflops = ProductRate(queue, CUDA_R_32F, CUBLAS_COMPUTE_32F, x, y, z);
  if (CudaInfo(ordinal).major < 8) return rates;
  rates.tf32_gflops = ProductRate(queue, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, x, y, z);
  FillWithNoise<__nv_bfloat16>(queue, x);
  FillWithNoise<__nv_bfloat16>(queue, y);
  rates.bf16_gflops = ProductRate(queue, CUDA_R_16BF, CUBLAS_COMPUTE_32F, x, y, z);
  return rates;
}

std::string CudaDriverVersion() {
  int version = 0;
  if (cudaDriverGetVersion(&version) != cudaSuccess) cudaGetLastError();
  return VersionOf(version);
}

std::string CudaRuntimeVersion() {
  int version = 0;
  if (cudaRuntimeGetVersion(&version) != cudaSuccess) cudaGetLastError();
  return VersionOf(version);
}

std::string CublasVersion() try {
  int major = 0, minor = 0, patch = 0;
  CheckCublas(Cublas().property(MAJOR_VERSION, &major), "cublasGetProperty");
  CheckCublas(Cublas().property(MINOR_VERSION, &minor), "cublasGetProperty");
  CheckCublas(Cublas().property(PATCH_LEVEL, &patch), "cublasGetProperty");
  return StrCat(major, ".", minor, ".", patch);
} catch (const Error&) {
  return "not found";
}

}  // namespace crema
#endif
