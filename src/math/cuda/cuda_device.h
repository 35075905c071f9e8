// GPUs through the CUDA runtime. This header needs no CUDA header.
#pragma once

#include <cstddef>
#include <memory>

#include "core/allocator.h"
#include "core/exec_context.h"

namespace crema {

// Returns the number of GPUs that this process can use; 0 without a driver.
int CudaDeviceCount();

// Makes it the current CUDA device of this thread, if possible.
void SelectCudaDevice(int ordinal);

// Creates the work queue of one GPU: a stream and a cuBLAS handle. Throws kDeviceFailure, or
// kNotFound for a GPU that does not exist. Without `graphs` nothing is captured. Thread safety: one
// thread at a time.
std::unique_ptr<DeviceQueue> MakeCudaQueue(int ordinal, bool graphs = true);

// Memory of one GPU. Thread safety: any number of threads. Must outlive its allocations.
std::unique_ptr<Allocator> MakeCudaAllocator(int ordinal);

// The same with memory that the CPU can access too while no work is queued (cudaMallocManaged).
std::unique_ptr<Allocator> MakeManagedAllocator(int ordinal);

}  // namespace crema
