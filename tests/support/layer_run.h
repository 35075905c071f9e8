// Runs one layer alone, as a session would, and watches what it does to memory.
#pragma once

#include <string>
#include <vector>

#include "graph/implementation.h"
#include "support/layer_case.h"

namespace crema::test {

// The largest initial value of parameter gradients, before a run adds to them.
inline constexpr double kMostKnownGradient = 3.5;

struct RunOptions {
  int threads = 1;
  bool backward = false;
  bool save = true;       // false: Forward runs without a backward pass
  bool in_place = false;  // output 0 lies on input 0, and their gradients too
  // Whose gradients are wanted: of all inputs, of none, or of the one with this index.
  int only_input = kAllInputs;
  bool parameter_grads = true;
  const Implementation* implementation = nullptr;  // null: the native methods
  // Weights are fixed, and Forward runs twice: the second run may use cached packed weights.
  bool weights_fixed = false;
  // The layout of the blobs of native methods (LayerInfo::any_format).
  MemoryFormat format = {};

  static constexpr int kAllInputs = -1;
  static constexpr int kNoInput = -2;
};

struct RunResult {
  std::vector<Values> outputs;
  std::vector<Values> input_grads;      // empty: not wanted
  std::vector<Values> parameter_grads;  // the added gradients
  std::vector<std::string> failures;    // broken promises: bounds, constness, unwritten elements
};

// Thread safety: several threads may run one case.
RunResult RunLayer(const LayerCase& layer_case, const CaseValues& values,
                   const RunOptions& options);

}  // namespace crema::test
