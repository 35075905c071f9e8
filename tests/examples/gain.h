// The layer of docs/adding_a_layer.md, and its implementation of
// docs/development/add_an_implementation.md. A built-in layer needs no header: the list declares
// it.
#pragma once

#include "graph/implementation.h"
#include "graph/registry.h"

namespace crema {

void RegisterGain(Registry& registry);
void RegisterGainCuda(Registry& registry);

ImplementationPtr GainByChannel();

}  // namespace crema
