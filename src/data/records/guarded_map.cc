#include "data/records/guarded_map.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

// Never freed, since a handler may read it at any time: 40 bytes per map of the process.
struct GuardedMap::Range {
  uintptr_t begin = 0;
  std::atomic<uintptr_t> end = 0;  // 0: unmapped
  std::atomic<bool> lost = false;
  Range* next = nullptr;
};

namespace {

struct Guard {
  std::atomic<GuardedMap::Range*> ranges = nullptr;
  uintptr_t page_bytes = 0;
  struct sigaction previous {};
};

Guard& TheGuard() {
  static Guard guard;
  return guard;
}

// Replaces an unreadable page by zeros. Async-signal-safe: mmap is a plain system call on Linux.
bool ReplacePage(uintptr_t address) {
  const Guard& guard = TheGuard();
  for (GuardedMap::Range* range = guard.ranges; range != nullptr; range = range->next) {
    if (address < range->begin || address >= range->end) continue;
    range->lost = true;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the address that the system names
    auto* const page = reinterpret_cast<void*>(address - address % guard.page_bytes);
    return mmap(page, guard.page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                0) != MAP_FAILED;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const bool sent = info->si_code <= 0;  // sent by a process, not caused by a load
  if (sent || !ReplacePage(reinterpret_cast<uintptr_t>(info->si_addr))) {
    // Not ours: restore the previous handler, under which the load is repeated.
    sigaction(SIGBUS, &TheGuard().previous, nullptr);
    if (sent) raise(signal);
  }
  errno = error;
}

bool InstallGuard() {
  Guard& guard = TheGuard();
  guard.page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, &guard.previous) == 0;
}

}  // namespace

GuardedMap::GuardedMap(int descriptor, size_t bytes, const std::string& path) : bytes_(bytes) {
  static const bool installed = InstallGuard();
  CREMA_CHECK(installed && bytes > 0);
  auto range = std::make_unique<Range>();
  void* const data = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (data == MAP_FAILED) {
    if (errno == ENOMEM) {
      Fail(ErrorCode::kOutOfMemory, StrCat("no addresses are left to map the ", bytes,
                                           " bytes of '", path, "' (ulimit -v)"));
    }
    Fail(ErrorCode::kIoFailure, StrCat("'", path, "' cannot be mapped: ", std::strerror(errno)));
  }
  range->begin = reinterpret_cast<uintptr_t>(data);
  range->end = range->begin + bytes;
  range_ = range.release();
  std::atomic<Range*>& ranges = TheGuard().ranges;
  range_->next = ranges;
  while (!ranges.compare_exchange_weak(range_->next, range_)) {
  }
}

GuardedMap::~GuardedMap() {
  range_->end = 0;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  munmap(reinterpret_cast<void*>(range_->begin), bytes_);
}

const char* GuardedMap::data() const {
  return reinterpret_cast<const char*>(range_->begin);  // NOLINT(performance-no-int-to-ptr)
}

bool GuardedMap::lost() const { return range_->lost; }

}  // namespace crema
