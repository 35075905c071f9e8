// GPUs through the CUDA runtime. This header needs no CUDA header.
#pragma once

#include <cstddef>
#include <memory>

#include "core/allocator.h"
#include "core/exec_context.h"

namespace crema {

// GPUs that this process can use; 0 also where there is no driver.
int CudaDeviceCount();

// Work queue of one GPU: a stream and a cuBLAS handle. Throws kDeviceFailure, or kNotFound for a
// GPU that does not exist. Thread safety: one thread at a time.
std::unique_ptr<DeviceQueue> MakeCudaQueue(int ordinal);

// Memory of one GPU. Thread safety: any number of threads. Must outlive what it allocated.
std::unique_ptr<Allocator> MakeCudaAllocator(int ordinal);

// Copies in the order of the queue's work. CopyToHost waits until the data is there; so does
// CopyToDevice until `from` may be changed. The queue must come from MakeCudaQueue.
void CopyToDevice(DeviceQueue& queue, void* to, const void* from, size_t bytes);
void CopyToHost(DeviceQueue& queue, void* to, const void* from, size_t bytes);
void CopyOnDevice(DeviceQueue& queue, void* to, const void* from, size_t bytes);
void FillZero(DeviceQueue& queue, void* to, size_t bytes);

}  // namespace crema
