// Checks a request against a model, and its shapes before memory is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"
#include "server/limits.h"
#include "server/model/executable.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

// Sorts the inputs in the order of the model. Returns their number of samples: 1 if the model does
// not batch. Throws kBadRequest for unknown, missing or misshapen inputs, unknown outputs and more
// samples than `max_batch`.
int64_t FitRequest(const ModelDescription& model, int64_t max_batch, InferRequest* request);

// Throws kBadRequest for dimensions below 1 and too many axes, kTooLarge for more elements than the
// limits allow or 64 bits can count.
Shape CheckedShape(const std::string& input, std::span<const int64_t> dims,
                   const RequestLimits& limits);

// Limits elements of BYTES, because short ones take many times their bytes. Throws kTooLarge.
void CheckImageCount(int64_t images, const RequestLimits& limits);

// Element budget of all tensors of a request.
class ElementBudget {
 public:
  explicit ElementBudget(const RequestLimits& limits) : limits_(limits) {}
  void Take(int64_t elements);  // throws kTooLarge

 private:
  const RequestLimits& limits_;
  int64_t taken_ = 0;
};

}  // namespace crema::server
