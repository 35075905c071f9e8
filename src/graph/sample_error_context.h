// The name of a sample in messages of running layers.
#pragma once

#include <cstdint>
#include <string>

#include "core/strings.h"

namespace crema {

// Returns "sample 5 of the batch". If the layer also sets Where::sample to that index, these words
// are replaced by the name of the sample, if its source has one (runtime/error_context.h).
inline std::string SampleErrorContext(int64_t index) {
  return StrCat("sample ", index, " of the batch");
}

}  // namespace crema
