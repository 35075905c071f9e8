#include "serve/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace crema::tools {

int64_t RaiseDescriptorLimit() {
  constexpr rlim_t kMost = rlim_t{1} << 20;  // "infinity" as a number
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;  // Linux's default
  rlimit raised = limit;
  raised.rlim_cur = limit.rlim_max;
  if (limit.rlim_cur < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return static_cast<int64_t>(std::min(limit.rlim_cur, kMost));
}

}  // namespace crema::tools
