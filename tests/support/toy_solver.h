// Small solvers for tests of training.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "format/prototxt.h"
#include "solvers/solver.h"
#include "support/net.h"

namespace crema::test {

// A solver written as text, with the net inside of it.
inline std::unique_ptr<Solver> SolverOf(const std::string& net, const std::string& fields,
                                        SolverOptions options = {}) {
  if (options.threads == 0) options.threads = 1;
  const std::string text = "net_param { " + net + " } " + fields;
  return std::make_unique<Solver>(MakeRunConfig(ParseSolver(text, "solver.prototxt")),
                                  TestRegistry(), std::move(options));
}

// By parameter slot.
inline std::vector<std::vector<float>> WeightsOf(Solver& solver) {
  std::vector<std::vector<float>> weights;
  for (size_t s = 0; s < solver.weights().size(); ++s) {
    weights.push_back(ValuesOf(std::as_const(solver.weights()).blob(s)));
  }
  return weights;
}

}  // namespace crema::test
