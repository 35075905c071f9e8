// What the name of an output of a net says of its values.
#pragma once

#include <string>

namespace crema::tools {

// Returns true if smaller values are better for an output of this name, as for a loss.
bool SmallerIsBetter(const std::string& name);

}  // namespace crema::tools
