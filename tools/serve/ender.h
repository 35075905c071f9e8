// Handles SIGTERM and SIGINT for the lifetime of the process.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "server/server.h"

namespace crema::tools {

// Blocks the two signals for this thread and its children. Call it before other threads exist.
void BlockEndSignals();

// A thread that waits for these signals and then shuts down the server. The process ends with code
// 0 after `exit_timeout` at the latest; at once if it is still loading and no request is in
// progress. Thread safety: one thread.
class Ender {
 public:
  // Handles signals from now on, including pending ones. Throws std::system_error if the thread
  // cannot be started.
  explicit Ender(std::chrono::milliseconds exit_timeout);
  ~Ender();  // after the server, to bound its destruction, too
  Ender(const Ender&) = delete;
  Ender& operator=(const Ender&) = delete;

  // Sets the server to drain.
  void Watch(server::Server* server);
  // Call it after loading. Returns when a signal came and all requests were answered.
  void AwaitEnd();
  // Stops handling signals. Required before the server is destroyed, unless AwaitEnd() returned.
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
