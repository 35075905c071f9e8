// Validates shapes of requests before memory is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"
#include "server/limits.h"

namespace crema::server {

// Throws kBadRequest for dimensions below 1 and too many axes, kTooLarge for more elements than the
// limits allow or 64 bits can count.
Shape CheckedShape(const std::string& input, std::span<const int64_t> dims,
                   const RequestLimits& limits);

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
