#include "server/protocol/datatype.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <iterator>
#include <utility>

#include "core/bfloat16.h"
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

namespace {

struct TypeRow {
  std::string_view name;
  InputType type;
  int64_t size;  // bytes of an element
  float least = 0;
  float most = 0;  // of an integer; 0 for other types
};

constexpr TypeRow kInputTypes[] = {{"BOOL", InputType::kBool, 1, 0, 1},
                                   {"UINT8", InputType::kUint8, 1, 0, 255},
                                   {"UINT16", InputType::kUint16, 2, 0, 65535},
                                   {"UINT32", InputType::kUint32, 4, 0, 0x1p32F},
                                   {"UINT64", InputType::kUint64, 8, 0, 0x1p64F},
                                   {"INT8", InputType::kInt8, 1, -128, 127},
                                   {"INT16", InputType::kInt16, 2, -32768, 32767},
                                   {"INT32", InputType::kInt32, 4, -0x1p31F, 0x1p31F},
                                   {"INT64", InputType::kInt64, 8, -0x1p63F, 0x1p63F},
                                   {"FP16", InputType::kFp16, 2},
                                   {"BF16", InputType::kBf16, 2},
                                   {"FP32", InputType::kFp32, 4},
                                   {"FP64", InputType::kFp64, 8},
                                   {"BYTES", InputType::kBytes, 0}};

const TypeRow& RowOf(InputType type) {
  return *std::ranges::find(kInputTypes, type, &TypeRow::type);
}

// Returns the name that NumPy's "float32" or "int8" has here; empty for other words.
std::string NameOfNumPyType(std::string_view word) {
  std::string name;
  for (const char c : word.substr(0, 16)) {
    name += static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
  }
  if (name == "FLOAT") name = "FP32";
  if (name == "DOUBLE") name = "FP64";
  if (name.starts_with("FLOAT")) name = StrCat("FP", name.substr(5));
  return std::ranges::find(kInputTypes, name, &TypeRow::name) == std::end(kInputTypes) ? "" : name;
}

}  // namespace

InputType ParseInputType(std::string_view input, std::string_view datatype) {
  const auto* const row = std::ranges::find(kInputTypes, datatype, &TypeRow::name);
  if (row != std::end(kInputTypes)) return row->type;
  const std::string meant = NameOfNumPyType(datatype);
  if (!meant.empty()) {
    Refuse(Cause::kBadRequest, StrCat("the datatype of input '", input, "' is '",
                                      datatype.substr(0, 16), "'; write ", meant));
  }
  Refuse(Cause::kBadRequest,
         StrCat("the datatype of input '", input,
                "' is none; it is BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32 or FP64, "
                "or BYTES with encoded images"));
}

bool IsInteger(InputType type) { return RowOf(type).most != 0; }

int64_t SizeOf(InputType type) { return RowOf(type).size; }

namespace {

template <typename T, typename Convert>
std::vector<float> Converted(std::string_view bytes, Convert&& convert) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (size_t i = 0; i < values.size(); ++i) {
    T element;
    std::memcpy(&element, bytes.data() + i * sizeof(T), sizeof(T));
    values[i] = convert(element, i);
  }
  return values;
}

}  // namespace

void RefuseInteger(std::string_view input, size_t element, std::string_view text) {
  Refuse(Cause::kBadRequest,
         StrCat("element ", element, " of input '", input, "' is ", text, "; inputs become FP32, ",
                "which holds integers up to 2^24, and few beyond"));
}

std::vector<float> ToFloats(std::string_view input, InputType type, std::string_view bytes) {
  const auto number = [&](auto element, size_t i) { return ExactFloat(input, i, element); };
  switch (type) {
    case InputType::kBool:
      return Converted<uint8_t>(bytes,
                                [](uint8_t element, size_t) { return element == 0 ? 0.0F : 1.0F; });
    case InputType::kUint8:
      return Converted<uint8_t>(bytes, number);
    case InputType::kUint16:
      return Converted<uint16_t>(bytes, number);
    case InputType::kUint32:
      return Converted<uint32_t>(bytes, number);
    case InputType::kUint64:
      return Converted<uint64_t>(bytes, number);
    case InputType::kInt8:
      return Converted<int8_t>(bytes, number);
    case InputType::kInt16:
      return Converted<int16_t>(bytes, number);
    case InputType::kInt32:
      return Converted<int32_t>(bytes, number);
    case InputType::kInt64:
      return Converted<int64_t>(bytes, number);
    case InputType::kFp16:
      return Converted<uint16_t>(bytes, [](uint16_t bits, size_t) { return HalfToFloat(bits); });
    case InputType::kBf16:
      return Converted<BFloat16>(bytes, number);
    case InputType::kFp64:
      return Converted<double>(bytes, number);
    default:
      return Converted<float>(bytes, number);
  }
}

void CheckNumbers(std::string_view input, InputType type, std::span<const float> numbers) {
  const TypeRow& row = RowOf(type);
  if (type == InputType::kFp16 || type == InputType::kBf16) {
    Refuse(Cause::kBadRequest, StrCat("input '", input, "' is ", row.name,
                                      ", which has no form in the JSON of the protocol: send it as "
                                      "binary data, or its numbers as FP32"));
  }
  if (row.most == 0) return;
  for (const float value : numbers) {
    if (value >= row.least && value <= row.most && value == std::trunc(value)) continue;
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
