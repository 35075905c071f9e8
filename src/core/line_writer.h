// Asynchronous line output for logs.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace crema {

// A bounded queue and a thread that writes to a file descriptor. A blocked descriptor (an unread
// pipe, a stopped terminal) blocks only that thread; SIGPIPE is not raised. Lines are dropped and
// counted when the queue is full. Keeps their order. Thread safety: any number of threads.
class LineWriter {
 public:
  // Returns the line, with its newline, that reports `lines` dropped lines.
  using Note = std::function<std::string(int64_t lines)>;

  // `descriptor` must stay open while this lives. The writing thread calls `dropped`; empty:
  // dropped lines are not reported.
  explicit LineWriter(int descriptor, Note dropped = {});
  // Waits up to kPatience for queued lines, unless another wait has just timed out. The rest is
  // lost.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  static constexpr std::chrono::milliseconds kPatience{1000};
  static constexpr size_t kMostBytes = size_t{1} << 20;  // in the queue

  // Queues whole lines with their newlines without blocking. (Writes directly if no thread can be
  // started.)
  void Write(std::string_view lines);
  // Queues lines and waits until they are written, so that they precede later output of the caller.
  // Waits at most 100 ms, and not at all while the descriptor is blocked.
  void WriteThrough(std::string_view lines);
  // Returns true when everything queued before is written or lost to an error, false after `most`.
  bool Flush(std::chrono::milliseconds most);
  // Returns errno of the last failed write; 0: none.
  int error() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);
  static int WriteNote(const State& state, int64_t dropped) noexcept;
  int64_t Queue(std::string_view lines);

  // Shared with the thread, which may be blocked for longer than this lives.
  std::shared_ptr<State> state_;
};

}  // namespace crema
