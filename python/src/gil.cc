#include "gil.h"

#include <pthread.h>

#include "core/parallel_for.h"

namespace crema::python {
namespace {

int forks = 0;  // of which this process is the child

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
