// Describes a run in texts for its folder.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "solvers/solver_config.h"

namespace crema {

struct RunFacts {
  std::vector<std::string> command;  // program and arguments
  uint64_t seed = 0;
  int threads = 0;
  int64_t iteration = 0;  // first iteration of this start
};

// Returns run.json: one object on one line; docs/run_folder.md has its members.
std::string RunJson(const RunConfig& config, const RunFacts& facts);

// Returns texts by file name: run.json, net.prototxt, solver.prototxt, and test_net_<i>.prototxt
// for test nets with their own text.
std::map<std::string, std::string> RunTexts(const RunConfig& config, const RunFacts& facts);

}  // namespace crema
