#include "server/protocol/datatype.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

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

void RequireFp32(std::string_view input, std::string_view datatype) {
  if (datatype == "FP32") return;
  if (IsDatatype(datatype)) {
    Refuse(Cause::kBadRequest,
           StrCat("input '", input, "' is FP32, not ", datatype, ", as the model's metadata says"));
  }
  Refuse(Cause::kBadRequest, StrCat("the datatype of input '", input, "' is none; it is FP32"));
}

}  // namespace crema::server
