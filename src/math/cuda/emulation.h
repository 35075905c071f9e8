// A stand-in for a GPU, where kernels run on the CPU: what their bodies compute and which memory
// they touch can be tested anywhere, under sanitizers too. What it cannot show: launches, the order
// in which threads run, and the libraries (cuBLAS, cuDNN), in whose place products are the CPU's.
#pragma once

#include <cstdint>

#include "core/exec_context.h"

namespace crema {

// Its memory is that of CpuAllocator(). Pass it on as any other context of a GPU.
ExecContext EmulatedGpuContext(uint64_t seed);
// The same in other memory of the CPU.
ExecContext EmulatedGpuContext(Allocator& memory, uint64_t seed);

}  // namespace crema
