#include "core/line_writer.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace crema {
namespace {

int64_t CountLines(std::string_view text) { return std::ranges::count(text, '\n'); }

// Removes written bytes from `text`. Returns errno if some are left.
int WriteAll(int descriptor, std::string_view* text) {
  while (!text->empty()) {
    const ssize_t count = ::write(descriptor, text->data(), text->size());
    if (count >= 0) {
      text->remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // non-blocking, set by another process
      pollfd room{.fd = descriptor, .events = POLLOUT, .revents = 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Blocks signals, so that other threads handle them.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

struct LineWriter::State {
  State(int to, Note note)
      : own(::fcntl(to, F_DUPFD_CLOEXEC, 3)),
        descriptor(own >= 0 ? own : to),
        note_of(std::move(note)) {}
  ~State() {
    if (own >= 0) ::close(own);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  // Own descriptor: the thread may write after the given one is closed. -1: none available.
  const int own;
  const int descriptor;
  const Note note_of;
  std::mutex mutex;  // guards the members below
  std::condition_variable work;
  std::condition_variable done;
  std::string queue;
  int64_t queued = 0;   // total bytes
  int64_t written = 0;  // bytes written or lost
  int64_t dropped = 0;  // lines not reported yet
  int error = 0;
  bool started = false;
  bool stalled = false;  // a wait has timed out
  bool ended = false;
};

int LineWriter::WriteNote(const State& state, int64_t dropped) noexcept {
  if (!state.note_of) return 0;
  try {
    const std::string note = state.note_of(dropped);
    std::string_view left = note;
    return WriteAll(state.descriptor, &left);
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

LineWriter::LineWriter(int descriptor, Note dropped)
    : state_(std::make_shared<State>(descriptor, std::move(dropped))) {}

LineWriter::~LineWriter() {
  std::unique_lock lock(state_->mutex);
  const bool stalled = state_->stalled;
  lock.unlock();
  if (!stalled) Flush(kPatience);
  lock.lock();
  state_->ended = true;
  state_->work.notify_all();
}

void LineWriter::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  for (;;) {
    state->work.wait(lock, [&] { return state->ended || !state->queue.empty(); });
    if (state->queue.empty()) return;
    std::string taken = std::exchange(state->queue, {});
    const int64_t target = state->queued;
    const int64_t dropped = std::exchange(state->dropped, 0);
    lock.unlock();
    std::string_view left = taken;
    int error = WriteAll(state->descriptor, &left);
    const int64_t lost = CountLines(left);
    if (error == 0 && dropped > 0) error = WriteNote(*state, dropped);
    lock.lock();
    if (error != 0) {
      state->error = error;
      state->dropped += dropped + lost;
    }
    state->written = target;
    state->stalled = false;
    state->done.notify_all();
  }
}

int64_t LineWriter::Queue(std::string_view lines) {
  const std::lock_guard lock(state_->mutex);
  if (state_->queue.size() + lines.size() > kMostBytes) {
    state_->dropped += CountLines(lines);
    return state_->queued;
  }
  if (!state_->started) {
    const SignalsBlocked blocked;
    try {
      std::thread([state = state_] { Run(state); }).detach();
      state_->started = true;
    } catch (const std::system_error&) {
      state_->error = WriteAll(state_->descriptor, &lines);
      return state_->queued;
    }
  }
  state_->queue += lines;
  state_->queued += static_cast<int64_t>(lines.size());
  state_->work.notify_one();
  return state_->queued;
}

void LineWriter::Write(std::string_view lines) { Queue(lines); }

void LineWriter::WriteThrough(std::string_view lines) {
  constexpr std::chrono::milliseconds kMoment{100};
  const int64_t target = Queue(lines);
  std::unique_lock lock(state_->mutex);
  const auto is_written = [&] { return state_->written >= target; };
  if (state_->stalled || state_->done.wait_for(lock, kMoment, is_written)) return;
  state_->stalled = true;
}

bool LineWriter::Flush(std::chrono::milliseconds most) {
  std::unique_lock lock(state_->mutex);
  const int64_t target = state_->queued;
  if (state_->done.wait_for(lock, most, [&] { return state_->written >= target; })) return true;
  state_->stalled = true;
  return false;
}

int LineWriter::error() const {
  const std::lock_guard lock(state_->mutex);
  return state_->error;
}

}  // namespace crema
