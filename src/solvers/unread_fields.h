// Fields of forks that a solver may have and this version does not follow.
#pragma once

#include <vector>

#include "core/error.h"
#include "crema.pb.h"

namespace crema {

// A warning for each such field that is set to something else than its default; where.field names
// it.
std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param);

}  // namespace crema
