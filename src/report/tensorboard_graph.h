// A plan as TensorBoard draws graphs.
#pragma once

#include <string>

#include "plan/plan.h"

namespace crema {

// A serialised GraphDef: a node a layer, with its type, its inputs and the shapes of its outputs.
// Splits, which planning adds, are left out. Characters that TensorBoard cannot have in a name
// become '_', and layers of one name get numbers.
std::string GraphDefOf(const Plan& plan);

}  // namespace crema
