// Converts a plan to a TensorBoard graph.
#pragma once

#include <string>

#include "plan/plan.h"

namespace crema {

// Returns a serialised GraphDef with one node per layer: its type, inputs and output shapes. Omits
// inserted Splits. Replaces characters that TensorBoard does not allow in names by '_', and numbers
// layers of equal names.
std::string GraphDefOf(const Plan& plan);

}  // namespace crema
