// How running layers name a sample in their messages.
#pragma once

#include <cstdint>
#include <string>

#include "core/strings.h"

namespace crema {

// "sample 5 of the batch". A layer that also sets Where::sample to that index has these words
// replaced by the name of the sample, where its source has one (runtime/error_context.h).
inline std::string SampleErrorContext(int64_t index) {
  return StrCat("sample ", index, " of the batch");
}

}  // namespace crema
