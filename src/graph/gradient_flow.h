// Decides which layers run backward, and which gradients they compute.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace crema {

struct GradientFlow {
  struct OfNode {
    bool backward = false;            // runs backward at all
    std::vector<bool> to_input;       // gradient of input i is computed
    std::vector<bool> to_parameters;  // gradient of parameter i is computed
  };
  std::vector<OfNode> nodes;
};

// Follows the rules of Caffe's Net: needs come from parameters with lr_mult != 0 and flow forward;
// propagate_down replaces them; layers that no weighted value depends on are left out;
// force_backward requests all gradients except for forbidden inputs. Throws kInvalidArgument if a
// gradient would have to flow into an input that takes none (a label that depends on parameters).
GradientFlow ComputeGradientFlow(const Graph& graph, const std::vector<LayerInfo>& infos);

// Returns a flow without a backward pass.
GradientFlow NoGradients(const Graph& graph);

}  // namespace crema
