// An emulated GPU, whose kernels run on the CPU: tests check results and memory accesses of kernels
// on any machine, also under sanitizers. Not covered: launches, the order of threads, and the
// libraries (cuBLAS, cuDNN), whose products the CPU computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/exec_context.h"

namespace crema {

// The operations of an emulated queue, in order, and settings that make tests harder. Entries are
// only added while there is room for them (reserve).
struct QueueTrace {
  enum class What {
    kUpload,       // CopyToDeviceAsync from `place`, in `stream`
    kDownload,     // CopyToHostAsync to `place`
    kTransferred,  // an upload of the transfer stream is done
    kRecord,       // event `place`, in `stream`
    kStreamWait,   // `stream` by event `place`
    kAsk,          // query of event `place`
    kLaunch,
    kBeginRange,
    kEndRange
  };
  struct Entry {
    What what;
    DeviceStream stream;
    const void* place;
    std::string name;  // of a kernel or range
    size_t bytes = 0;  // of kUpload
  };
  std::vector<Entry> entries = {};
  // Times that the host waited. A queried event has completed, unless transfers are late.
  int64_t waits = 0;
  int64_t captures = 0;
  int64_t replays = 0;
  // Uploads in the transfer stream are done as late as the events allow.
  bool late_transfers = false;
  bool no_graphs = false;  // as --cuda_graphs=0
                           // The launch of this kernel fails after `whole_launches` others of it,
                           // as on a broken device.
  std::string broken_kernel = {};
  int64_t whole_launches = 0;
};

// Uses the memory of CpuAllocator(). Can be used as any other context of a GPU.
ExecContext EmulatedGpuContext(uint64_t seed);
// The same, recording in `trace`, which must outlive it.
ExecContext EmulatedGpuContext(QueueTrace* trace, uint64_t seed);
// The same with another allocator of CPU memory.
ExecContext EmulatedGpuContext(Allocator& memory, uint64_t seed);

}  // namespace crema
