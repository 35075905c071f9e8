// Element types by their names in the Open Inference Protocol.
#pragma once

#include <string_view>

#include "core/dtype.h"

namespace crema::server {

// "FP32"; empty where the protocol has no such type.
std::string_view DatatypeOf(DType dtype);

// Whether it is one of the protocol: "BOOL", "UINT8" ... "BYTES".
bool IsDatatype(std::string_view name);

// Throws kBadRequest unless it is FP32, which is what all inputs are; names the types of the
// protocol as ones that this input does not take, others as unknown.
void RequireFp32(std::string_view input, std::string_view datatype);

}  // namespace crema::server
