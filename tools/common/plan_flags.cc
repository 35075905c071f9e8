#include "common/plan_flags.h"

#include <gflags/gflags.h>

#include "graph/plan_passes.h"

DEFINE_string(passes, "all",
              "passes of the planner, to see what one does: -absorb is all but that one, "
              "none,+absorb that one alone; docs/performance.md has their names");

namespace crema::tools {

PlanOptions PlanOptionsOfFlags() { return {.passes = ParsePasses(FLAGS_passes)}; }

}  // namespace crema::tools
