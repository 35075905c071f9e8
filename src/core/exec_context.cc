#include "core/exec_context.h"

#include <sched.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "core/machine_limits.h"

namespace crema {

ExecContext::ExecContext(int threads, uint64_t seed)
    : allocator_(&CpuAllocator()),
      threads_(threads > 0 ? threads : AvailableProcessors()),
      seed_(seed) {}

ExecContext::ExecContext(std::unique_ptr<DeviceQueue> queue, Allocator& allocator, uint64_t seed)
    : allocator_(&allocator), queue_(std::move(queue)), seed_(seed) {}

ExecContext::~ExecContext() = default;
ExecContext::ExecContext(ExecContext&&) noexcept = default;
ExecContext& ExecContext::operator=(ExecContext&&) noexcept = default;

int AvailableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int processors = sched_getaffinity(0, sizeof(set), &set) == 0
                             ? CPU_COUNT(&set)
                             : static_cast<int>(std::thread::hardware_concurrency());
  const int quota = ProcessorQuota();
  return std::max(1, quota > 0 ? std::min(processors, quota) : processors);
}

}  // namespace crema
