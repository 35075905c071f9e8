// Runs before the initializers of all libraries, so it is linked to each program, not to the
// library.
//
// - Ends the command with exit code 4 if a library hangs during start-up: OpenBLAS, a dependency of
//   OpenCV, requests 128 MiB per processor until it succeeds, which `ulimit -v` may forbid.
// - Limits the time that idle threads of OpenMP spin.
#include <elf.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <string_view>

#if defined(__linux__) && !defined(CREMA_SANITIZED)

namespace crema::tools {
namespace {

constexpr time_t kMostSeconds = 1;  // processor time; the libraries need 0.02

// Async-signal-safe.
void EndStartup(int) {
  static constexpr char kMessage[] =
      "error: the libraries of this command cannot start with the memory that `ulimit -v` leaves: "
      "raise it, or set OMP_NUM_THREADS=1, since OpenBLAS takes 128 MiB for each thread\n";
  static_cast<void>(!::write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1));
  ::_exit(4);
}

void SetTimer(time_t seconds) {
  itimerval timer{};
  timer.it_value.tv_sec = seconds;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

bool IsMemoryLimited() {
  rlimit limit{};
  return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

// Starts the program again, in the same process, with GOMP_SPINCOUNT set. libgomp reads it in its
// initializer; no call changes it later. By default idle threads spin for milliseconds, which takes
// the processors from other programs and, once these delay one thread, from our own. Has no effect
// if the user has chosen, or if the program was started through the dynamic linker.
void LimitSpinning(char** arguments, char** environment) {
  static char setting[] = "GOMP_SPINCOUNT=1000";  // some 10 us
  static std::array<char*, 1024> changed{};
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    const std::string_view variable(environment[count]);
    if (variable.starts_with("GOMP_SPINCOUNT=") || variable.starts_with("OMP_WAIT_POLICY=")) return;
    if (count + 2 == changed.size()) return;
    changed[count] = environment[count];
  }
  if (getauxval(AT_BASE) == 0) return;
  changed[count] = setting;
  ::execve("/proc/self/exe", arguments, changed.data());  // returns if it cannot
}

void BeforeLibraries(int, char** arguments, char** environment) {
  LimitSpinning(arguments, environment);
  if (!IsMemoryLimited()) return;
  std::signal(SIGPROF, EndStartup);
  SetTimer(kMostSeconds);
}

[[gnu::constructor]] void AfterLibraries() {
  if (!IsMemoryLimited()) return;
  SetTimer(0);
  std::signal(SIGPROF, SIG_DFL);
}

using Initializer = void(int, char**, char**);
// It takes a function for data that could be const.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
[[gnu::section(".preinit_array"), gnu::used]] Initializer* const kBeforeLibraries = BeforeLibraries;

}  // namespace
}  // namespace crema::tools

#endif
