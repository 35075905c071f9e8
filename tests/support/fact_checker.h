// The facts that LayerInfo states about a layer (reach, shared_inputs, constant, moves_only),
// against what runs of the layer show.
#pragma once

#include <string>
#include <vector>

#include "graph/registry.h"

namespace crema::test {

// Runs the sample, with batches of three where the layer takes them, on several inputs. Returns a
// message for each claim that is false and for each fact that is not claimed. A fact that holds by
// accident of the sample (one channel, an output that is the input) need not be claimed.
std::vector<std::string> CheckFacts(const LayerType& type, const LayerSample& sample);

}  // namespace crema::test
