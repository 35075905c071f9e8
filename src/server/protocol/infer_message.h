// A request for inference and its answer, whatever they travelled as.
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

// Elements of type FP32, little-endian. They are either values (JSON) or bytes of somebody else,
// not aligned, which live as long as InferRequest::keep.
struct InputTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
  std::string_view raw;

  std::string_view bytes() const {
    if (values.empty()) return raw;
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

struct RequestedOutput {
  std::string name;
  bool binary = false;
  int64_t classes = 0;  // above 0: the best so many as "score:index:label"
};

struct InferRequest {
  std::string id;  // of the protocol; may be empty
  std::vector<InputTensor> inputs;
  std::vector<RequestedOutput> outputs;  // empty: all
  bool binary_outputs = false;           // of those that are not named
  std::optional<int64_t> timeout_us;     // to wait in the queue at most
  std::shared_ptr<const void> keep;      // owns what raw points to
  // Set by anybody when nobody wants the answer any more; null: never.
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
