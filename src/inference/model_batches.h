// Arrays through a model, in batches.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "inference/model.h"

namespace crema {

struct NamedOutput {
  std::string name;
  Tensor value;
};

// Runs a model on whole arrays: as they are where `batch` is 0, else `batch` samples at a time, the
// last time the rest. Throws kInvalidArgument as ModelRunner::Run does, and for a batch where the
// model does not work sample by sample or the inputs have different numbers of samples.
std::vector<NamedOutput> RunOnArrays(const Model& model, ModelRunner* runner,
                                     std::span<const NamedTensor> inputs, int64_t batch);

// Values in [0, 1) for every input of a model, of `batch` samples where the model works sample by
// sample, else of the extents of the net; whole numbers are 0. Depends on the seed only.
std::vector<NamedOutput> RandomInputs(const Model& model, int64_t batch, uint64_t seed);

// The views of arrays, which must live.
std::vector<NamedTensor> ViewsOf(std::span<const NamedOutput> arrays);

}  // namespace crema
