// Runs one batch of requests.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "server/model/executable.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

struct BatchMember {
  const InferRequest* request = nullptr;
  int64_t samples = 1;
};

// An executor with the memory to gather batches in. Thread safety: one thread.
class BatchRun {
 public:
  explicit BatchRun(const Executable& model);

  // Returns copies of the outputs that each member requested. Requires: members whose shapes differ
  // only in the number of samples; a single member unless the model batches. Throws what the model
  // throws.
  std::vector<std::vector<OutputTensor>> Run(std::span<const BatchMember> members);
  // Runs batches of 1, 2, 4 ... max_batch samples of zeros; only one sample if a shape is not fixed
  // or the model does not batch.
  void Warm(int64_t max_batch);

 private:
  ConstTensorView Gather(size_t input, std::span<const BatchMember> members, int64_t samples);

  const ModelDescription& model_;
  std::unique_ptr<Executor> executor_;
  std::vector<std::vector<float>> staging_;  // by input
};

}  // namespace crema::server
