// A library may hang during start-up if `ulimit -v` leaves too little memory: OpenBLAS, a
// dependency of OpenCV, requests 128 MiB per processor until it succeeds. This guard ends the
// command with exit code 4 then. It is linked to each program, not to the library, since it must
// run before and after the initializers of all libraries.
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>

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

void BeforeLibraries(int, char**, char**) {
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
