#include "server/protocol/datatype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/half.h"
#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {

std::string_view DatatypeOf(DType dtype) {
  constexpr std::pair<DType, std::string_view> kTypes[] = {
      {DType::kF32, "FP32"}, {DType::kF64, "FP64"},  {DType::kF16, "FP16"}, {DType::kBF16, "BF16"},
      {DType::kU8, "UINT8"}, {DType::kI32, "INT32"}, {DType::kI64, "INT64"}};
  const auto* const found = std::ranges::find(kTypes, dtype, [](const auto& t) { return t.first; });
  return found == std::end(kTypes) ? std::string_view() : found->second;
}

bool IsDatatype(std::string_view name) {
  constexpr std::array<std::string_view, 14> kNames = {
      "BOOL",  "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16",
      "INT32", "INT64", "FP16",   "FP32",   "FP64",   "BF16", "BYTES"};
  return std::ranges::find(kNames, name) != kNames.end();
}

InputType ParseInputType(std::string_view input, std::string_view datatype) {
  constexpr std::pair<std::string_view, InputType> kTypes[] = {
      {"FP32", InputType::kFp32},   {"FP16", InputType::kFp16},   {"UINT8", InputType::kUint8},
      {"INT32", InputType::kInt32}, {"INT64", InputType::kInt64}, {"BYTES", InputType::kBytes}};
  for (const auto& [name, type] : kTypes) {
    if (name == datatype) return type;
  }
  constexpr std::string_view kTaken =
      "it is FP32, FP16, UINT8, INT32 or INT64, or BYTES with encoded images";
  if (IsDatatype(datatype)) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input, "' cannot be given as ", datatype, "; ", kTaken));
  }
  Refuse(Cause::kBadRequest, StrCat("the datatype of input '", input, "' is none; ", kTaken));
}

int64_t SizeOf(InputType type) {
  switch (type) {
    case InputType::kUint8:
      return 1;
    case InputType::kFp16:
      return 2;
    case InputType::kInt64:
      return 8;
    default:
      return 4;
  }
}

namespace {

template <typename T, typename Convert>
std::vector<float> Converted(std::string_view bytes, Convert&& convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(element);
  }
  return values;
}

}  // namespace

std::vector<float> ToFloats(InputType type, std::string_view bytes) {
  const auto number = [](auto element) { return static_cast<float>(element); };
  switch (type) {
    case InputType::kFp16:
      return Converted<uint16_t>(bytes, HalfToFloat);
    case InputType::kUint8:
      return Converted<uint8_t>(bytes, number);
    case InputType::kInt32:
      return Converted<int32_t>(bytes, number);
    case InputType::kInt64:
      return Converted<int64_t>(bytes, number);
    default:
      return Converted<float>(bytes, number);
  }
}

void CheckNumbers(std::string_view input, InputType type, std::span<const float> numbers) {
  if (type == InputType::kFp32) return;
  if (type == InputType::kFp16) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input, "' is FP16, which JSON cannot say: send it as binary data"));
  }
  const float least = type == InputType::kUint8   ? 0.0F
                      : type == InputType::kInt32 ? -0x1p31F
                                                  : -0x1p63F;
  const float most = type == InputType::kUint8 ? 255.0F : -least;
  for (const float value : numbers) {
    if (value >= least && value <= most && value == std::trunc(value)) continue;
    Refuse(Cause::kBadRequest,
           StrCat("an element of 'data' of '", input, "' is ", value,
                  ", which is not in the range of its datatype, or not an integer"));
  }
}

std::vector<std::string> SplitBytes(std::string_view input, std::string_view bytes, int64_t count) {
  std::vector<std::string> elements;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
    if (bytes.size() < sizeof(length) || length > bytes.size() - sizeof(length)) {
      Refuse(Cause::kBadRequest, StrCat("input '", input, "' ends within an element"));
    }
    if (static_cast<int64_t>(elements.size()) == count) break;
    elements.emplace_back(bytes.substr(sizeof(length), length));
    bytes.remove_prefix(sizeof(length) + length);
  }
  if (static_cast<int64_t>(elements.size()) != count || !bytes.empty()) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input, "' has not the ", count, " elements that its shape takes"));
  }
  return elements;
}

}  // namespace crema::server
