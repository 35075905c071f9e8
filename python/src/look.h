// Descriptions of nets for crema._look.
#pragma once

#include <string>

#include "plan/plan.h"

namespace crema::python {

// Returns the layers of a plan and their sums as the JSON of `summary`, without memory.
std::string LayersJson(const Plan& plan);

}  // namespace crema::python
