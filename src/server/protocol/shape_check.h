// Shapes of strangers, before memory is taken for them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "core/shape.h"
#include "server/limits.h"

namespace crema::server {

// Throws kBadRequest for negative extents and too many axes, kTooLarge for more elements than the
// limits allow, or than 64 bits can count. An extent of zero is refused: there is nothing to infer.
Shape CheckedShape(const std::string& input, std::span<const int64_t> extents,
                   const RequestLimits& limits);

// The elements of all tensors of one request.
class ElementBudget {
 public:
  explicit ElementBudget(const RequestLimits& limits) : limits_(limits) {}
  void Take(int64_t elements);  // throws kTooLarge

 private:
  const RequestLimits& limits_;
  int64_t taken_ = 0;
};

}  // namespace crema::server
