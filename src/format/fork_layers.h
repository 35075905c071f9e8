// Layer types of Caffe's forks that Crema does not have, and what does their work here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crema {

struct ForkLayer {
  std::string_view type;  // as in `type: "..."`
  std::string_view fork;  // programs that have it
  // The remedy, as an instruction, or "not supported: ...". For types that are rewritten
  // (HasForkRewrite): the layers that are, as in "with one bottom".
  std::string_view instead;
};

// Returns all of them. None is the name of a registered type.
std::span<const ForkLayer> ForkLayers();

// Returns "layer type 'BoxData' comes from <fork> and is not in Crema: <what to do>", or "... and
// works here only <condition>" for types that are rewritten; empty for any other type.
std::string ForkLayerMessage(std::string_view type);

}  // namespace crema
