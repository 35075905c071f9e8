// Weights for untrained nets.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "crema.pb.h"
#include "graph/registry.h"
#include "runtime/weights.h"

namespace crema::compare {

// Sets fillers with which values keep their magnitude through any number of layers, and every
// parameter changes the outputs, so that an error in any layer is visible there.
void SetFillers(NetParameter* net);

// Fills the weights of a net (its TRAIN phase) and takes running means and variances from one pass
// over inputs as RunnerInputs draws them.
std::shared_ptr<Weights> MakeRandomWeights(std::shared_ptr<const Plan> plan,
                                           const std::map<std::string, Shape>& integers,
                                           int threads);

}  // namespace crema::compare
