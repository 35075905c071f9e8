// Cost of a net, layer by layer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.h"

namespace crema {

struct LayerSummary {
  std::string name;
  std::string type;
  std::vector<Shape> outputs;
  int64_t parameters = 0;        // elements that a solver changes; a shared blob counts once
  int64_t statistics = 0;        // elements that Forward updates (BatchNorm's running means)
  int64_t macs = 0;              // multiply-adds of products, one forward pass of the whole batch
  int64_t activation_bytes = 0;  // of outputs with their own memory
};

struct NetSummary {
  std::vector<LayerSummary> layers;
  LayerSummary total;  // sums; name, type and outputs are empty
  int64_t weight_bytes = 0;
  int64_t gradient_bytes = 0;  // of weights
  int64_t arena_bytes = 0;     // activations, their gradients, saved tensors
  int64_t scratch_bytes = 0;
  int64_t packed_bytes = 0;  // weights packed for implementations
  int64_t primitive_bytes =
      0;  // about what oneDNN keeps for implementations: code that it generates for each
  int64_t read_ahead_bytes = 0;  // batches that data layers have ready or in progress
  int64_t peak_bytes = 0;        // total of these
  int64_t recomputed = 0;        // layers that run forward again in the backward pass
  int64_t recomputed_macs = 0;   // of these layers
};

NetSummary Summarize(const Plan& plan);

}  // namespace crema
