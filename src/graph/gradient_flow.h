// Which layers run backward, and which gradients they compute.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct GradientFlow {
  struct OfNode {
    bool backward = false;         // runs backward at all
    std::vector<bool> to_input;    // gradient of input i is computed
    std::vector<bool> to_learned;  // gradient of learned blob i is computed
  };
  std::vector<OfNode> nodes;
};

// The rules of Caffe's Net: needs come from learned blobs with lr_mult != 0 and flow forward;
// propagate_down replaces them; layers that no weighted value depends on are left out;
// force_backward asks for everything but forbidden inputs. Throws kInvalidArgument where a gradient
// would have to flow into an input that takes none (a label that depends on learned blobs).
GradientFlow ComputeGradientFlow(const Graph& graph, const std::vector<LayerInfo>& infos);

// No backward pass at all.
GradientFlow NoGradients(const Graph& graph);

}  // namespace crema
