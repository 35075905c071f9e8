// Flag of commands that can leave out what is damaged.
#pragma once

namespace crema::tools {

// Whether --on_bad is skip. Throws kInvalidArgument where it is neither skip nor error.
bool SkipsBad();

}  // namespace crema::tools
