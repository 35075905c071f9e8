// Names of element types in the Open Inference Protocol.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace crema::server {

// Returns for example "FP32"; empty if the protocol has no such type.
std::string_view DatatypeOf(DType dtype);

// Datatypes of inputs: those of the protocol and BF16. Numbers become FP32, the type of all inputs
// in the metadata; BYTES are encoded images.
enum class InputType {
  kBool,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFp16,
  kBf16,
  kFp32,
  kFp64,
  kBytes
};

// Throws kBadRequest for a name that is none.
InputType ParseInputType(std::string_view input, std::string_view datatype);
// Bytes of an element. Requires: not kBytes.
int64_t SizeOf(InputType type);
// Rounds to the nearest FP32: integers beyond 2^24 are inexact. Requires: whole elements,
// little-endian, not of kBytes.
std::vector<float> ToFloats(InputType type, std::string_view bytes);
// Throws kBadRequest if a number of JSON is none of this type.
void CheckNumbers(std::string_view input, InputType type, std::span<const float> numbers);
// Splits elements of kBytes, each after its length in four bytes. Throws kBadRequest unless there
// are `count`.
std::vector<std::string> SplitBytes(std::string_view input, std::string_view bytes, int64_t count);

}  // namespace crema::server
