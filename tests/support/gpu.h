// The GPU of tests: the first of the machine, or a stand-in (math/cuda/emulation.h) if there is
// none or CUDA was not built.
#pragma once

#include "core/allocator.h"
#include "core/exec_context.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"

namespace crema::test {

// Returns all built-in layers, with their GPU implementations also in builds without CUDA.
const Registry& LayersWithGpuImplementations();

// For contexts of the stand-in: the same without implementations by cuDNN and cuBLASLt, which on a
// machine with a GPU are these libraries themselves and take memory of the CPU for the GPU's; and
// FilterOfTheCpu: Filter without code for GPUs.
const Registry& LayersOfStandIn();

// Returns whether this build can use a GPU and the machine has one.
bool HasGpu();

ExecContext GpuContext(uint64_t seed);
// The same without CUDA graphs (--cuda_graphs=0).
ExecContext GpuContextWithoutGraphs(uint64_t seed);
// The same, working in other memory of that GPU.
ExecContext GpuContextIn(Allocator& memory, uint64_t seed);
// The same for sessions of a run.
ComputeDevice GpuDevice();

// Returns whether the code for GPUs of this build computes in f16: where nvcc compiled it.
bool HasF16OnGpu();

// Memory that both the CPU and this GPU can touch.
Allocator& SharedMemory();

}  // namespace crema::test
