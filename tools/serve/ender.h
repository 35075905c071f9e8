// SIGTERM and SIGINT, from the start of the process to its end.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/server.h"

namespace crema::tools {

// Blocks the two signals, for this thread and those it makes: call it before there are others.
void BlockEndSignals();

// A thread that waits for them and then lets the server end. The process ends with code 0 as soon
// as `exit_timeout` is over, whatever it is doing then; at once when it is still loading and
// nothing is under way. Thread safety: one thread.
class Ender {
 public:
  // Hears signals from now on, those that came before too. Throws std::system_error when the system
  // refuses a thread.
  explicit Ender(std::chrono::milliseconds exit_timeout);
  ~Ender();  // after the server: its destruction is bounded too
  Ender(const Ender&) = delete;
  Ender& operator=(const Ender&) = delete;

  // From now on there is a server to drain.
  void Watch(server::Server* server);
  // Loading is done: returns when a signal came and all was answered.
  void AwaitEnd();
  // No signal is heard any more. Required before the server goes where AwaitEnd() did not return.
  void Stop();

 private:
  enum class State { kLoading, kServing, kEnded };

  void Run();
  void DrainOrEnd();

  const std::chrono::milliseconds exit_timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kLoading;
  bool stopped_ = false;
  server::Server* server_ = nullptr;
  std::thread thread_;
};

}  // namespace crema::tools
