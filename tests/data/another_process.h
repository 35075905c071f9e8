// A part of a test in a process of its own.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace crema::testing {

// Runs `body` in its own process, with a time limit; returns its exit code, or -1 if a signal ended
// it.
template <typename Body>
int InAnotherProcess(Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(body());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace crema::testing
