// A stand-in for a GPU, where kernels run on the CPU: what their bodies compute and which memory
// they touch can be tested anywhere, under sanitizers too. What it cannot show: launches, the order
// in which threads run, and the libraries (cuBLAS, cuDNN), in whose place products are the CPU's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/exec_context.h"

namespace crema {

// What a stand-in was asked to do, in order, and what it is to do to be a harder test. Entries are
// only added while there is room for them (reserve).
struct QueueTrace {
  enum class What {
    kUpload,       // CopyToDeviceAsync from `place`, in `stream`
    kDownload,     // CopyToHostAsync to `place`
    kTransferred,  // an upload of the lane of transfers is done
    kRecord,       // event `place`, in `stream`
    kStreamWait,   // `stream` by event `place`
    kAsk,          // whether event `place` has passed
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
  // Times that the host waited. An event that is asked for has passed, unless transfers are late.
  int64_t waits = 0;
  int64_t captures = 0;
  int64_t replays = 0;
  // Uploads in the lane of transfers are done as late as the events allow.
  bool late_transfers = false;
  bool no_graphs = false;  // as --cuda_graphs=0
  // The launch of this kernel that comes after so many others of it fails, as on a broken device.
  std::string broken_kernel = {};
  int64_t whole_launches = 0;
};

// Its memory is that of CpuAllocator(). Pass it on as any other context of a GPU.
ExecContext EmulatedGpuContext(uint64_t seed);
// The same, telling `trace`, which must outlive it.
ExecContext EmulatedGpuContext(QueueTrace* trace, uint64_t seed);
// The same in other memory of the CPU.
ExecContext EmulatedGpuContext(Allocator& memory, uint64_t seed);

}  // namespace crema
