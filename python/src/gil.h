// The lock of the interpreter (GIL), and forks.
#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

#include <mutex>

namespace crema::python {

// Calls `body`, which runs code of Python or takes the GIL. Python before 3.14 leaves both by
// pthread_exit when the interpreter exits. This must not unwind the frames of the caller, many of
// which are noexcept or need the interpreter: the thread then waits for the end.
template <typename Body>
decltype(auto) WaitIfExiting(const Body& body) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    while (true) pause();
  }
}

// While it lives, this thread does not have the GIL. Unlike nanobind's class it does not end the
// process if the interpreter exits meanwhile: the thread then waits for the end.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// While it lives, this thread has the GIL. Waits for the end if the interpreter exits.
class GilHeld {
 public:
  GilHeld();
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

// Lets processes that are forked from this one compute. To be called once.
void HandleForks();
// A lock for short use without the GIL, which a child process does not inherit in locked state.
std::mutex& ForkSafeMutex();
// Returns a number that differs between this process and those that it was forked from.
int ProcessNumber();

}  // namespace crema::python
