// import --weights: fills the parameters of a net from a state dict.
#pragma once

#include <string>

namespace crema::tools {

// Returns true if one of the flags of this action was given.
bool WantsWeights();

// Writes the parameters of --onto with the values of --weights to `output`, a caffemodel or, by
// its extension, safetensors; with --print_map prints the map alone. Throws kInvalidArgument,
// listing all parameters and entries without a match, before anything is written.
int ImportWeights(const std::string& output);

}  // namespace crema::tools
