#include "core/parallel_for.h"

#include <chrono>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

#ifdef _OPENMP
namespace {
thread_local int known = 1;  // the largest team that this thread has checked
}

void RequireTeam(int workers) {
  const int team = std::min(workers, omp_get_thread_limit());
  if (team <= known || omp_in_parallel() != 0) return;
  // A team that shrank and grows again starts threads while the lost ones are still ending. This
  // thread's pool already has some.
  RequireThreads(2 * (team - 1) - (known - 1));
  known = team;
}

void EndIdleTeam() {
  if (omp_pause_resource_all(omp_pause_soft) == 0) known = 1;
}
#else
void RequireTeam(int) {}
void EndIdleTeam() {}
#endif

namespace {

// Returns 0 if unknown.
int ThreadsOfProcess() {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word) {
    int count = 0;
    if (word == "Threads:" && file >> count) return count;
  }
  return 0;
}

// The system counts a thread for a moment after it was joined.
void AwaitThreads(int most) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
  while (ThreadsOfProcess() > most && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

bool CanStart(int count) {
  const int before = ThreadsOfProcess();
  std::latch go(1);
  std::vector<std::thread> threads;
  bool started = true;
  try {
    for (int i = 0; i < count; ++i) threads.emplace_back([&go] { go.wait(); });
  } catch (...) {  // out of threads or memory
    started = false;
  }
  go.count_down();
  for (std::thread& thread : threads) thread.join();
  AwaitThreads(before);
  return started;
}

}  // namespace

void RequireThreads(int count) {
  if (CanStart(count)) return;
  Fail(ErrorCode::kOutOfMemory,
       StrCat(count, count == 1 ? " thread" : " threads",
              " could not be started: use fewer threads, or raise the limit of threads "
              "(ulimit -u, pids.max of the control group) or of memory (ulimit -v)"));
}

}  // namespace crema
