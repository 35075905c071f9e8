// The worked layer of docs/adding_a_layer.md. A built-in layer needs no header: the list declares
// it.
#pragma once

#include "graph/registry.h"

namespace crema {

void RegisterGain(Registry& registry);

}  // namespace crema
