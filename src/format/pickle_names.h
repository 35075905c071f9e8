// Opcodes, functions and classes in pickles.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "format/stored_elements.h"

namespace crema {

enum class PickleGlobal : uint8_t {
  kOrderedDict,
  kRebuildTensor,     // (storage, offset, size, stride)
  kRebuildTensorV2,   // the same, requires_grad, hooks, ...
  kRebuildTensorV3,   // the same, requires_grad, hooks, dtype, ...
  kRebuildParameter,  // (tensor, requires_grad, hooks, ...)
  kRebuildFromType,   // (function, type, arguments, state)
  kSize,              // (tuple): the tuple
  kPlainCall,         // its result has no meaning here: numpy scalars, devices
  kStorageType,       // of elements
  kDType,             // of elements
  kUnreadType,        // a storage or a type of elements without an f32
  kClass,             // torch.Tensor and the like, as an argument
};

struct AllowedGlobal {
  std::string_view name;  // "collections.OrderedDict"
  PickleGlobal global;
  ElementType type = ElementType::kF32;  // of kStorageType and kDType
};

// Returns the index in the list of allowed names; -1 if it is not in the list.
int FindAllowedGlobal(std::string_view module, std::string_view name);
const AllowedGlobal& AllowedGlobalAt(int index);

// Returns the name of an opcode of Python's protocols 0 to 5, such as "REDUCE"; empty: there is
// none.
std::string_view PickleOpcodeName(uint8_t opcode);

}  // namespace crema
