// Warns about fields of a solver that its run ignores.
#pragma once

#include <vector>

#include "core/error.h"
#include "crema.pb.h"

namespace crema {

// Returns a warning for each field of a fork that this version does not support, and each that the
// lr_policy or the type of this solver does not read, if it is set to something other than its
// default; where.field names it.
std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param);

}  // namespace crema
