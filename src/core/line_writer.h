// Lines for a log that somebody may or may not read.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace crema {

// A bounded queue and one thread that writes to a file descriptor. A descriptor that
// takes nothing (a pipe that nobody reads, a stopped terminal) holds up that thread alone; SIGPIPE
// is not raised. Lines that find the queue full are dropped and counted. Lines keep their order.
// Thread safety: any number of threads.
class LineWriter {
 public:
  // Returns the line, with its end, that says that `lines` lines were dropped.
  using Note = std::function<std::string(int64_t lines)>;

  // `descriptor` is open while this lives. `dropped` is called by the writing thread; empty:
  // nothing is said of dropped lines.
  explicit LineWriter(int descriptor, Note dropped = {});
  // Waits up to kPatience for what is queued, unless somebody has just waited in vain. What is left
  // is lost.
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  static constexpr std::chrono::milliseconds kPatience{1000};
  static constexpr size_t kMostBytes = size_t{1} << 20;  // that wait

  // Queues whole lines with their ends; never waits. (In a process that can start no thread it
  // writes them itself.)
  void Write(std::string_view lines);
  // Queues them and waits until they are written, so that they stand before what the caller does
  // next; for 100 ms at most, and not at all while the descriptor takes nothing.
  void WriteThrough(std::string_view lines);
  // Returns true when all that was queued before is written or lost to an error, false after
  // `most`.
  bool Flush(std::chrono::milliseconds most);
  // Returns errno of the last write that failed; 0: none did.
  int error() const;

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state);
  static int WriteNote(const State& state, int64_t dropped) noexcept;
  int64_t Queue(std::string_view lines);

  // Shared with the thread, which may be held up for longer than this lives.
  std::shared_ptr<State> state_;
};

}  // namespace crema
