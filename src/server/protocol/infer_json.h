// Parses and writes inference requests and answers as JSON with the binary-tensor extension.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "server/limits.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

// The first `header_length` bytes of the body (without it, all) are JSON; the rest holds the inputs
// with `binary_data_size`, in their order. Checks consistency and limits before allocating; does
// not check the model. Throws kBadRequest and kTooLarge.
InferRequest ParseInferRequest(std::shared_ptr<const std::string> body,
                               std::optional<size_t> header_length, const RequestLimits& limits);

struct InferBody {
  std::string bytes;
  std::optional<size_t> header_length;  // set if binary tensors follow
};

// Throws kBadRequest if a JSON output contains NaN or infinity.
InferBody WriteInferReply(const InferRequest& request, const InferReply& reply,
                          const std::vector<std::string>& labels);

}  // namespace crema::server
