// Converts between messages of inference.proto and our own.
#pragma once

#include "inference.pb.h"
#include "server/limits.h"
#include "server/protocol/infer_message.h"
#include "server/repository/model_version.h"

namespace crema::server {

// Inputs point into `message`, which must outlive the request. Checks consistency and limits, not
// the model. Throws kBadRequest and kTooLarge.
InferRequest FromMessage(const inference::ModelInferRequest& message, const RequestLimits& limits);

// Returns outputs as raw bytes.
void ToMessage(const InferRequest& request, const InferReply& reply,
               const std::vector<std::string>& labels, inference::ModelInferResponse* message);

void DescribeModel(const ModelVersion& model, std::span<const int64_t> versions,
                   inference::ModelMetadataResponse* message);
void DescribeConfig(const ModelVersion& model, inference::ModelConfig* message);
void DescribeStatistics(const ModelVersion& model, inference::ModelStatistics* message);

}  // namespace crema::server
