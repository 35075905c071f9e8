// Commands in which chosen allocations fail (tests/faults/failing_calls.c).
#pragma once
#ifdef CREMA_FAILING_CALLS
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/temp_dir.h"

namespace crema::test {

// Thread safety: one thread.
class FailingAllocations {
 public:
  FailingAllocations() {
    folder_.Write("control", std::string(sizeof(Control), '\0'));
    const int file = ::open(folder_.File("control").c_str(), O_RDWR | O_CLOEXEC);
    void* map = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (map == MAP_FAILED) throw std::runtime_error("mmap");
    control_ = static_cast<Control*>(map);
  }
  ~FailingAllocations() { ::munmap(control_, sizeof(Control)); }
  FailingAllocations(const FailingAllocations&) = delete;
  FailingAllocations& operator=(const FailingAllocations&) = delete;

  // Command that runs the following one.
  std::vector<std::string> Wrapper() const {
    return {"/usr/bin/env",  "LD_PRELOAD=" CREMA_FAILING_CALLS,
            "FAULT_CALLS=m", StrCat("FAULT_CONTROL=", folder_.File("control")),
            "FAULT_HOW=12",  "FAULT_UNDER=/"};
  }
  int64_t calls() const { return control_->calls; }
  void Restart() { control_->calls = 0; }
  // From the `at`-th allocation from now on, `count` ones fail.
  void Fail(int64_t at, int64_t count) {
    control_->more = count - 1;
    control_->at = control_->calls + at;
  }
  void FailNone() { control_->at = 0; }

 private:
  struct Control {
    std::atomic<int64_t> calls, at, faults, more;
  };

  TempDir folder_;
  Control* control_ = nullptr;
};

}  // namespace crema::test
#endif
