#include "serve/ender.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>

#include "common/tool.h"

namespace crema::tools {
namespace {

sigset_t EndSignals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  return ends;
}

// Does not flush streams: one that is not read would block. The logs have already waited for their
// readers.
[[noreturn]] void EndNow() { ::_exit(0); }

}  // namespace

void BlockEndSignals() {
  const sigset_t ends = EndSignals();
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
}

Ender::Ender(std::chrono::milliseconds exit_timeout) : exit_timeout_(exit_timeout) {
  thread_ = std::thread([this] { Run(); });
}

Ender::~Ender() { Stop(); }

void Ender::Watch(server::Server* server) {
  const std::lock_guard lock(mutex_);
  server_ = server;
}

void Ender::AwaitEnd() {
  std::unique_lock lock(mutex_);
  state_ = State::kServing;
  changed_.wait(lock, [&] { return state_ == State::kEnded; });
}

void Ender::Stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  // Wakes the thread from sigwait.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void Ender::DrainOrEnd() {
  try {
    LogEvent(Severity::kInfo, "ending: no longer ready, answering requests in progress", {});
    if (server_->Drain(exit_timeout_)) return;
    LogEvent(Severity::kWarning, "--exit_timeout is over: requests in progress are given up", {});
  } catch (...) {
    // Not enough memory for an answer or a message.
  }
  EndNow();
}

void Ender::Run() {
  const sigset_t ends = EndSignals();
  int which = 0;
  sigwait(&ends, &which);
  const auto deadline = std::chrono::steady_clock::now() + exit_timeout_;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_) return;
    if (server_ == nullptr) EndNow();
  }
  DrainOrEnd();
  std::unique_lock lock(mutex_);
  if (state_ == State::kLoading) EndNow();
  state_ = State::kEnded;
  changed_.notify_all();
  if (!changed_.wait_until(lock, deadline, [&] { return stopped_; })) EndNow();
}

}  // namespace crema::tools
