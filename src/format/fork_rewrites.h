// Layers of Caffe's forks that are written with layers of Crema when a net is read.
#pragma once

#include <string_view>

namespace crema {

// Returns true for types that UpgradeForkLayers rewrites, unless a layer fails their conditions
// (ForkLayer::instead).
bool HasForkRewrite(std::string_view type);

}  // namespace crema
