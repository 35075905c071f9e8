// --plugin, for commands that open nets.
#pragma once

#include "graph/plugin.h"
#include "graph/registry.h"
#include "solvers/solver_config.h"

namespace crema::tools {

// Returns the built-in layers and those of --plugin. Throws like LoadPlugin.
Registry LayersOfFlag();

// Loads the plugins that the nets of a run name. Throws like crema::LoadPlugins.
void LoadPlugins(RunConfig* config, Registry* registry);

}  // namespace crema::tools
