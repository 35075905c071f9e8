#include "support/gpu.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/error.h"
#include "graph/implementation.h"
#include "math/cuda/emulation.h"
#ifdef CREMA_HAVE_CUDA
#include "math/cuda/cuda_device.h"
#else
#include "layers/gpu_implementations.h"
#endif

namespace crema::test {

const Registry& LayersWithGpuImplementations() {
  static const Registry registry = [] {
    Registry made = BuiltinRegistry();
#ifndef CREMA_HAVE_CUDA
    AddGpuImplementations(&made);
#endif
    return made;
  }();
  return registry;
}

const Registry& LayersOfStandIn() {
  static const Registry registry = [] {
    Registry made;
    for (const std::string& name : LayersWithGpuImplementations().Names()) {
      LayerType type = *LayersWithGpuImplementations().Find(name);
      std::erase_if(type.implementations, [](const ImplementationPtr& implementation) {
        return implementation->name.starts_with("cudnn") ||
               implementation->name.starts_with("cublaslt");
      });
      made.Add(std::move(type));
    }
    LayerType type = *made.Find("Filter");
    type.name = "FilterOfTheCpu";
    type.implementations.clear();
    made.Add(std::move(type));
    return made;
  }();
  return registry;
}

bool HasF16OnGpu() {
#ifdef CREMA_HAVE_CUDA
  return true;
#else
  return false;
#endif
}

namespace {

// If a GPU must be tested, the emulation must not pass for one.
void RefuseStandInIfGpuIsRequired() {
  if (std::getenv("CREMA_REQUIRE_GPU") == nullptr) return;
  Fail(ErrorCode::kDeviceFailure, "CREMA_REQUIRE_GPU is set, and there is no GPU");
}

#ifdef CREMA_HAVE_CUDA
ExecContext RealContext(uint64_t seed, bool graphs) {
  static const std::unique_ptr<Allocator> memory = MakeCudaAllocator(0);
  return ExecContext(MakeCudaQueue(0, graphs), *memory, seed);
}
#endif

}  // namespace

bool HasGpu() {
#ifdef CREMA_HAVE_CUDA
  return CudaDeviceCount() > 0;
#else
  return false;
#endif
}

ExecContext GpuContext(uint64_t seed) {
#ifdef CREMA_HAVE_CUDA
  if (CudaDeviceCount() > 0) return RealContext(seed, true);
#endif
  RefuseStandInIfGpuIsRequired();
  return EmulatedGpuContext(seed);
}

ExecContext GpuContextWithoutGraphs(uint64_t seed) {
#ifdef CREMA_HAVE_CUDA
  if (CudaDeviceCount() > 0) return RealContext(seed, false);
#endif
  RefuseStandInIfGpuIsRequired();
  thread_local QueueTrace no_graphs{.no_graphs = true};
  return EmulatedGpuContext(&no_graphs, seed);
}

ExecContext GpuContextIn(Allocator& memory, uint64_t seed) {
#ifdef CREMA_HAVE_CUDA
  if (CudaDeviceCount() > 0) return ExecContext(MakeCudaQueue(0), memory, seed);
#endif
  return EmulatedGpuContext(memory, seed);
}

ComputeDevice GpuDevice() { return {.device = {DeviceType::kCuda, 0}, .gpu_context = GpuContext}; }

Allocator& SharedMemory() {
#ifdef CREMA_HAVE_CUDA
  static const std::unique_ptr<Allocator> memory =
      CudaDeviceCount() > 0 ? MakeManagedAllocator(0) : nullptr;
  if (memory != nullptr) return *memory;
#endif
  return CpuAllocator();
}

}  // namespace crema::test
