// The server's interface to a model: its inputs and outputs, and executors.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "inference/image_input.h"
#include "inference/model.h"

namespace crema::server {

struct ModelDescription {
  std::string task;
  std::vector<BlobInfo> inputs;   // all FP32; a dimension of -1 means any size
  std::vector<BlobInfo> outputs;  //
  bool batches = false;           // requests may be batched along the first axis
  std::vector<std::string> labels;
  Preprocessing preprocessing;
};

// Thread safety: one thread at a time.
class Executor {
 public:
  virtual ~Executor() = default;
  // Like ModelRunner.
  virtual void Run(std::span<const NamedTensor> inputs) = 0;
  virtual ConstTensorView Output(std::string_view name) const = 0;
};

// Thread safety: const.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual const ModelDescription& description() const = 0;
  virtual std::unique_ptr<Executor> MakeExecutor() const = 0;
};

// Throws kUnsupported if an input or output is not FP32.
std::shared_ptr<const Executable> ToExecutable(std::shared_ptr<const Model> model);

}  // namespace crema::server
