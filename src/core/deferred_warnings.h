// Deferred warnings: code without a logger queues messages here; the owner of a logger drains them.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace crema {

// A bounded list of messages. Thread safety: any number of threads.
class DeferredWarnings {
 public:
  static constexpr size_t kMost = 1000;

  // Counts messages beyond kMost undrained ones instead of storing them.
  void Add(std::string text);
  // Returns the messages since the last call, in order. The last one reports dropped messages, if
  // any.
  std::vector<std::string> Take();

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
  uint64_t left_out_ = 0;
};

// Implemented by objects with deferred warnings, for example layer states.
class HasDeferredWarnings {
 public:
  virtual ~HasDeferredWarnings() = default;
  virtual std::vector<std::string> TakeWarnings() const = 0;
};

}  // namespace crema
