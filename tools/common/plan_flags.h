// Flags about how nets are planned.
#pragma once

#include "graph/plan.h"

namespace crema::tools {

// What --passes says, of all else the defaults. Throws kInvalidArgument.
PlanOptions PlanOptionsOfFlags();

}  // namespace crema::tools
