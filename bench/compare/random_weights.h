// Weights for nets that nobody has trained.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "crema.pb.h"
#include "graph/registry.h"
#include "runtime/weights.h"

namespace crema::compare {

// Fillers with which values keep their size through any number of layers and every learned blob
// changes the outputs, so that a fault in any layer shows there.
void SetFillers(NetParameter* net);

// Fills the weights of a net (its TRAIN phase) and takes running means and variances from one pass
// over inputs as RunnerInputs draws them.
std::shared_ptr<Weights> MakeRandomWeights(std::shared_ptr<const Plan> plan,
                                           const std::map<std::string, Shape>& integers,
                                           int threads);

}  // namespace crema::compare
