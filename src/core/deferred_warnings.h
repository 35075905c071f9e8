// What parts without a log of their own have to tell: they put it down, and who has a log takes it.
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

  // Beyond kMost that nobody has taken, messages are only counted.
  void Add(std::string text);
  // Those since the last call, in order; the last one says how many were left out, if any were.
  std::vector<std::string> Take();

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
  uint64_t left_out_ = 0;
};

// Something that has notices; states of layers are asked whether they are one.
class HasDeferredWarnings {
 public:
  virtual ~HasDeferredWarnings() = default;
  virtual std::vector<std::string> TakeWarnings() const = 0;
};

}  // namespace crema
