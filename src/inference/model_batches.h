// Runs a model on arrays in batches.
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

// Runs a model on whole arrays: at once if `batch` is 0, else `batch` samples at a time; the last
// batch may be smaller. Throws what ModelRunner::Run throws, and kInvalidArgument for a batch if
// samples are not independent or the inputs differ in their number of samples.
std::vector<NamedOutput> RunOnArrays(const Model& model, ModelRunner* runner,
                                     std::span<const NamedTensor> inputs, int64_t batch);

// Returns random inputs in [0, 1), depending on the seed only: `batch` samples if samples are
// independent, else in the shapes of the net. Whole numbers are 0.
std::vector<NamedOutput> RandomInputs(const Model& model, int64_t batch, uint64_t seed);

// Returns these, or zeros if the net refuses them, as layers with indices refuse fractions. Runs
// the net once. Throws what ModelRunner throws, but for what Run does.
std::vector<NamedOutput> AcceptedInputs(const std::shared_ptr<const Model>& model, int64_t batch,
                                        uint64_t seed);

// Returns views of arrays, which must outlive them.
std::vector<NamedTensor> ViewsOf(std::span<const NamedOutput> arrays);

}  // namespace crema
