// Names of element types in the Open Inference Protocol.
#pragma once

#include <string_view>

#include "core/dtype.h"

namespace crema::server {

// Returns for example "FP32"; empty if the protocol has no such type.
std::string_view DatatypeOf(DType dtype);

// Returns true for a type of the protocol: "BOOL", "UINT8" ... "BYTES".
bool IsDatatype(std::string_view name);

// Throws kBadRequest unless it is FP32, the type of all inputs. Distinguishes types that this input
// does not support from unknown ones.
void RequireFp32(std::string_view input, std::string_view datatype);

}  // namespace crema::server
