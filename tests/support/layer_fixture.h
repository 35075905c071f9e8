// Runs a built-in layer on given numbers, for tests with manually computed values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "crema.pb.h"
#include "graph/registry.h"
#include "support/layer_run.h"

namespace crema::test {

struct Blob {
  std::vector<int64_t> shape;
  Values values;
};

struct LayerCall {
  std::string prototxt = {};
  std::vector<Blob> inputs;
  int outputs = 1;
  // One weighting for each output; empty: no backward pass.
  std::vector<Values> output_grads = {};
  Phase phase = TRAIN;
  DType dtype = DType::kF32;
  // Parameters in their order; as many as the layer has.
  std::vector<Values> parameters = {};
};

// The outputs and, where asked for, the gradients of one call. Throws what the layer throws, and
// std::logic_error when it breaks a promise of the contract.
RunResult CallLayer(const LayerType& type, const LayerCall& call);

}  // namespace crema::test
