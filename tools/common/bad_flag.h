// --on_bad, for commands that can skip damaged items.
#pragma once

namespace crema::tools {

// Returns true if --on_bad is skip. Throws kInvalidArgument unless it is skip or error.
bool SkipsBad();

}  // namespace crema::tools
