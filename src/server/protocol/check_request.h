// Checks a request against a model.
#pragma once

#include <cstdint>

#include "server/model/executable.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

// Sorts the inputs in the order of the model. Returns their number of samples: 1 if the model does
// not batch. Throws kBadRequest for unknown, missing or misshapen inputs, unknown outputs and more
// samples than `max_batch`.
int64_t FitRequest(const ModelDescription& model, int64_t max_batch, InferRequest* request);

}  // namespace crema::server
