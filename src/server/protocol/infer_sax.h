// Parses the JSON part of an inference request, without consistency checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/limits.h"

namespace crema::server {

struct ParsedParameters {
  std::optional<int64_t> binary_data_size;
  std::optional<bool> binary_data;
  std::optional<bool> binary_data_output;
  std::optional<int64_t> classification;
  std::optional<int64_t> timeout;
};

struct ParsedTensor {
  std::optional<std::string> name;
  std::optional<std::string> datatype;
  std::optional<std::vector<int64_t>> shape;
  std::optional<std::vector<float>> data;
  ParsedParameters parameters;
};

struct ParsedInfer {
  std::optional<std::string> id;
  std::optional<std::vector<ParsedTensor>> inputs;
  std::optional<std::vector<ParsedTensor>> outputs;
  ParsedParameters parameters;
};

// Ignores unknown keys. Throws kBadRequest for invalid JSON, too deep nesting, duplicate keys or
// values of the wrong type, kTooLarge for more tensors or elements than the limits allow.
ParsedInfer ParseInferJson(std::string_view json, const RequestLimits& limits);

}  // namespace crema::server
