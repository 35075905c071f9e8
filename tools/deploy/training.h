// --run and --solver: the net, weights and class names of a training.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "inference/model.h"

namespace crema::tools {

struct Training {
  std::string text = {};  // path of the net's text
  NetFile net = {};
  NetState state = {};  // of tests
  std::vector<std::string> labels = {};
  SolverParameter solver = {};
  std::string run = {};             // folder; empty: --solver
  std::string working_folder = {};  // of the run, for its relative paths; may be empty
};

// Reads a run folder, or a solver and its nets. A net that only tests use counts if it has a loss
// or decodes boxes. Throws kInvalidArgument for a folder without a run, and the errors of reading.
Training ReadRunFolder(const std::string& folder);
Training ReadTrainingOf(const std::string& solver);

// Returns the best model if the solver keeps one (snapshot_best), else the model of the last
// snapshot, averaged if tests used averaged weights. Logs the file, and warns if another run may
// have written it. Throws kNotFound if there is none.
std::string WeightsOf(const Training& training);

// Returns the deploy net that a training net is made to, or the net itself if it is a deploy net;
// completes the card. Logs decisions.
NetFile DeployNetOf(NetFile net, const NetState& state, const std::map<std::string, Shape>& shapes,
                    const Registry& registry, ModelCard* card);

}  // namespace crema::tools
