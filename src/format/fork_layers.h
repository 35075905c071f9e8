// Layer types of Caffe's forks that Crema does not have, and what does their work here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crema {

struct ForkLayer {
  std::string_view type;     // as in `type: "..."`
  std::string_view fork;     // programs that have it
  std::string_view instead;  // what to do here, as an instruction, or "not supported: ..."
  // Layers that compute the same from blob x (and `label`) into blob y, with example sizes; empty
  // if none do.
  std::string_view layers = {};
};

// Returns all of them. None is the name of a registered type.
std::span<const ForkLayer> ForkLayers();

// Returns "layer type 'Reverse' comes from <fork> and is not in Crema: <what to do>"; empty for any
// other type.
std::string ForkLayerMessage(std::string_view type);

}  // namespace crema
