// Flags about planning.
#pragma once

#include <memory>
#include <string>

#include "plan/implementation_timer.h"
#include "plan/plan.h"

namespace crema::tools {

// Returns options from --passes, --autotune and --allow_cpu_layers, with defaults for all others.
// Throws kInvalidArgument.
PlanOptions PlanOptionsOfFlags();

// Measures for at most `seconds`, caches the times in the user's folder, logs to ToolLog. Returns
// null for 0. Throws kInvalidArgument below 0 and above a day.
std::shared_ptr<ImplementationTimer> MakeImplementationTimer(double seconds);

}  // namespace crema::tools
