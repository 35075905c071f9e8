// Names of element types in the Open Inference Protocol.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/dtype.h"
#include "core/whole_number.h"

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
bool IsInteger(InputType type);  // also kBool
// Bytes of an element. Requires: not kBytes.
int64_t SizeOf(InputType type);
// Returns FP64 as the nearest FP32. Throws kBadRequest for an integer that FP32 does not hold.
// Requires: whole elements, little-endian, not of kBytes.
std::vector<float> ToFloats(std::string_view input, InputType type, std::string_view bytes);
// Refuses an integer, which is shown as text, that FP32 does not hold.
[[noreturn]] void RefuseInteger(std::string_view input, size_t element, std::string_view text);
// Returns an integer as FP32. Throws kBadRequest if FP32 does not hold it.
template <typename T>
float ExactFloat(std::string_view input, size_t element, T value) {
  if constexpr (std::is_integral_v<T>) {
    if (!IsExactFloat(value)) RefuseInteger(input, element, std::to_string(value));
  }
  return static_cast<float>(value);
}
// Throws kBadRequest if a number of JSON is none of this type.
void CheckNumbers(std::string_view input, InputType type, std::span<const float> numbers);
// Splits elements of kBytes, each after its length in four bytes. Throws kBadRequest unless there
// are `count`.
std::vector<std::string> SplitBytes(std::string_view input, std::string_view bytes, int64_t count);

}  // namespace crema::server
