// Models without nets, whose runs a test can block and count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "server/model/executable.h"

namespace crema::test {

// State shared by runs of fake models. Thread safety: any number of threads.
class Gate {
 public:
  void Close();
  void Open();
  void Pass();                   // waits while it is closed
  void AwaitWaiting(int count);  // until this many wait at it

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int waiting_ = 0;
};

struct FakeModelOptions {
  bool batches = true;
  int64_t width = 4;
  float factor = 2;            // y = factor * x
  std::shared_ptr<Gate> gate;  // null: none
  std::vector<std::string> labels = {};
  bool picture = false;  // the input is N x 1 x 2 x 2 instead of N x 4
  std::string input = "x";
  std::string task = "classify";  // of a picture
};

inline FakeModelOptions WithPictures() {
  FakeModelOptions options;
  options.picture = true;
  return options;
}

// x (N x width) -> y = factor * x and sum (N x 1). A sample that begins with 666 fails the run with
// kInvalidArgument, 667 with kInternal.
class FakeModel final : public server::Executable {
 public:
  explicit FakeModel(FakeModelOptions options = {});

  const server::ModelDescription& description() const override { return description_; }
  std::unique_ptr<server::Executor> MakeExecutor() const override;

  // Batch sizes of the runs since the last call of Forget.
  std::vector<int64_t> runs() const;
  void Forget() const;

 private:
  class FakeExecutor;
  FakeModelOptions options_;
  server::ModelDescription description_;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> runs_;
};

}  // namespace crema::test
