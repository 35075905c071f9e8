// The device on which the sessions of a run compute.
#pragma once

#include <cstdint>
#include <functional>

#include "core/exec_context.h"

namespace crema {

// Thread safety: const.
struct ComputeDevice {
  Device device = {};  // of the plans too
  // For a GPU: makes a context with a queue of its own.
  std::function<ExecContext(uint64_t seed)> gpu_context = {};
  // For a GPU: returns the bytes that can be allocated now. Empty: unknown, and FreeBytes() is 0.
  std::function<int64_t()> free_bytes = {};

  bool is_gpu() const { return device.type != DeviceType::kCpu; }
  int64_t FreeBytes() const { return free_bytes ? free_bytes() : 0; }
  // `threads` are CPU threads, 0: one for each processor.
  ExecContext Context(int threads, uint64_t seed) const {
    return is_gpu() ? gpu_context(seed) : ExecContext(threads, seed);
  }
};

}  // namespace crema
