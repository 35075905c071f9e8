// Fields that a solver may have and its run does not follow.
#pragma once

#include <vector>

#include "core/error.h"
#include "crema.pb.h"

namespace crema {

// A warning for each field of a fork that this version does not follow, and each that the lr_policy
// or the type of this solver does not read, where it is set to something else than its default;
// where.field names it.
std::vector<Problem> WarnAboutUnreadFields(const SolverParameter& param);

}  // namespace crema
