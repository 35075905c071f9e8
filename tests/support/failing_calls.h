// Commands in which chosen allocations or system calls fail (tests/faults/failing_calls.c).
#pragma once
#ifdef CREMA_FAILING_CALLS
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/strings.h"
#include "support/temp_dir.h"

namespace crema::test {

// Thread safety: one thread.
class FailingCalls {
 public:
  // `calls`: letters for kinds of calls, on files in the folder `under`; by default allocations.
  // They fail with the number `error` of errno.
  explicit FailingCalls(std::string calls = "m", int error = ENOMEM, std::string under = "/")
      : settings_{StrCat("FAULT_CALLS=", calls), StrCat("FAULT_HOW=", error),
                  StrCat("FAULT_UNDER=", under)} {
    folder_.Write("control", std::string(sizeof(Control), '\0'));
    const int file = ::open(folder_.File("control").c_str(), O_RDWR | O_CLOEXEC);
    void* map = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    if (map == MAP_FAILED) throw std::runtime_error("mmap");
    control_ = static_cast<Control*>(map);
  }
  ~FailingCalls() { ::munmap(control_, sizeof(Control)); }
  FailingCalls(const FailingCalls&) = delete;
  FailingCalls& operator=(const FailingCalls&) = delete;

  // Command that runs the following one.
  std::vector<std::string> Wrapper() const {
    std::vector<std::string> command = {"/usr/bin/env", "LD_PRELOAD=" CREMA_FAILING_CALLS,
                                        StrCat("FAULT_CONTROL=", folder_.File("control"))};
    command.insert(command.end(), settings_.begin(), settings_.end());
    return command;
  }
  int64_t calls() const { return control_->calls; }
  void Restart() { control_->calls = 0; }
  // From the `at`-th call from now on, `count` ones fail.
  void Fail(int64_t at, int64_t count) {
    control_->more = count - 1;
    control_->at = control_->calls + at;
  }
  void FailNone() { control_->at = 0; }

 private:
  struct Control {
    std::atomic<int64_t> calls, at, faults, more;
  };

  const std::vector<std::string> settings_;
  TempDir folder_;
  Control* control_ = nullptr;
};

}  // namespace crema::test
#endif
