#include "server/protocol/datatype.h"

#include <algorithm>
#include <array>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {

std::string_view DatatypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "FP32";
    case DType::kF64:
      return "FP64";
    case DType::kF16:
      return "FP16";
    case DType::kBF16:
      return "BF16";
    case DType::kU8:
      return "UINT8";
    case DType::kI32:
      return "INT32";
    case DType::kI64:
      return "INT64";
  }
  return {};
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
