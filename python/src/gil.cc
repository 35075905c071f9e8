#include "gil.h"

#include <cxxabi.h>
#include <pthread.h>
#include <unistd.h>

#include "core/parallel_for.h"

namespace crema::python {
namespace {

int forks = 0;  // of which this process is the child

// Calls `take`, which Python before 3.14 leaves by pthread_exit when the interpreter exits. This
// must not unwind the frames of the caller, many of which are noexcept.
template <typename Take>
void WaitIfExiting(const Take& take) {
  try {
    take();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

}  // namespace

GilReleased::~GilReleased() {
  WaitIfExiting([this] { PyEval_RestoreThread(state_); });
}

GilHeld::GilHeld() {
  WaitIfExiting([this] { state_ = PyGILState_Ensure(); });
}

std::mutex& ForkSafeMutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

void HandleForks() {
  pthread_atfork(
      [] {
        EndIdleTeam();
        ForkSafeMutex().lock();
      },
      [] { ForkSafeMutex().unlock(); },
      [] {
        ForkSafeMutex().unlock();
        ++forks;
      });
}

int ProcessNumber() { return forks; }

}  // namespace crema::python
