// Inference requests and answers as JSON, with the binary-tensor extension.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/limits.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

// Reads a body whose first `header_length` bytes are JSON (all of it without), and whose rest is
// what inputs with `binary_data_size` hold, in their order. All is checked against the limits and
// against itself before memory is taken; not against a model. Throws kBadRequest and kTooLarge.
InferRequest ParseInferRequest(std::shared_ptr<const std::string> body,
                               std::optional<size_t> header_length, const RequestLimits& limits);

struct InferBody {
  std::string bytes;
  std::optional<size_t> header_length;  // present where binary tensors follow
};

// Throws kBadRequest where an output that is to be JSON holds NaN or infinity.
InferBody WriteInferReply(const InferRequest& request, const InferReply& reply,
                          const std::vector<std::string>& labels);

}  // namespace crema::server
