// Flags about how nets are planned.
#pragma once

#include <memory>
#include <string>

#include "plan/implementation_timer.h"
#include "plan/plan.h"

namespace crema::tools {

// What --passes, --autotune and --allow_cpu_layers say, of all else the defaults. Throws
// kInvalidArgument.
PlanOptions PlanOptionsOfFlags();

// Measures for at most so many seconds, keeps the times in the folder of the user, logs to ToolLog;
// null for 0. Throws kInvalidArgument below 0 and beyond a day.
std::shared_ptr<ImplementationTimer> MakeImplementationTimer(double seconds);

}  // namespace crema::tools
