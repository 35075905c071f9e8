// What a formula is (elementwise.h): of the CPU, and of GPUs.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "graph/layer.h"

namespace crema {

// Elements that pay for a thread: of a few additions and products, or of exp and its like.
constexpr int64_t kCheapGrain = 1 << 14;
constexpr int64_t kCostlyGrain = 1 << 11;

}  // namespace crema
