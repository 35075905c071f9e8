// Short names for JSON functions.
#pragma once

#include "core/json.h"

namespace crema::tools {

using crema::JsonNumber;
using crema::JsonString;

}  // namespace crema::tools
