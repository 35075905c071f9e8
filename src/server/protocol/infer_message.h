// An inference request and its answer, independent of the protocol.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shape.h"

namespace crema::server {

// FP32 elements, little-endian: either values or unaligned external bytes, valid as long as
// InferRequest::keep; or encoded images (BYTES), which DecodeImages turns into values. For an input
// that TakesPixels, FitRequest and DecodeImages make external bytes of UINT8.
struct InputTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
  std::string_view raw;
  std::vector<std::string> images;  // one for each element of `shape`

  std::string_view bytes() const {
    if (values.empty()) return raw;
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

struct RequestedOutput {
  std::string name;
  bool binary = false;
  int64_t classes = 0;  // above 0: return that many best classes as "score:index:label"
};

struct InferRequest {
  std::string id;  // from the protocol; may be empty
  std::vector<InputTensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  bool binary_outputs = false;           // default for unnamed outputs
  std::optional<int64_t> timeout_us;     // maximum time in the queue
  std::shared_ptr<const void> keep;      // owns the memory of raw inputs
  // Set by any thread when the answer is no longer needed; null: never.
  std::shared_ptr<const std::atomic<bool>> cancelled;
};

struct OutputTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

struct InferReply {
  std::string model;
  int64_t version = 0;
  std::vector<OutputTensor> outputs;
};

}  // namespace crema::server
