// The JSON header of .safetensors files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "format/state_dict.h"

namespace crema {

struct SafetensorsEntry {
  StateEntry entry;
  uint64_t begin = 0;  // bytes after the header
  uint64_t end = 0;
};

// Returns the tensors in the order of the text; does not compare ranges. Throws kDataLoss for text
// that is not such a header, kUnsupported for an element type without an f32. `file` is for
// messages.
std::vector<SafetensorsEntry> ReadSafetensorsHeader(std::string_view text, const std::string& file);

}  // namespace crema
