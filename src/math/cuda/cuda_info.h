// The available GPUs and their peak rates. This header needs no CUDA header.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

struct GpuInfo {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  int processors = 0;  // streaming multiprocessors
  int64_t memory = 0;  // bytes
  int64_t free = 0;    // free bytes now
};

struct GpuRates {
  double to_gpu_gbs = 0;  // 1e9 bytes a second, between page-locked memory of the host and the GPU
  double from_gpu_gbs = 0;
  double copy_gbs = 0;     // within the GPU, bytes read and written
  double f32_gflops = 0;   // of a matrix product, 1e9 operations a second
  double tf32_gflops = 0;  // 0: this GPU has no such units
  double bf16_gflops = 0;
};

// Returns why CUDA cannot use a GPU, in the driver's words; empty if it can.
std::string WhyNoCuda();

// Describes GPU `ordinal`, below CudaDeviceCount. Both functions throw kDeviceFailure and
// kOutOfMemory.
GpuInfo CudaInfo(int ordinal);
// Takes about two seconds and 192 MiB of GPU memory.
GpuRates MeasureCudaRates(int ordinal);

// Returns e.g. "13.0"; for the driver the newest CUDA that it runs, "not found" without one.
std::string CudaDriverVersion();
std::string CudaRuntimeVersion();
std::string CublasVersion();

}  // namespace crema
