// Random orders that can be asked for again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/rng.h"

namespace crema {

// A permutation of 0..n-1, the same for the same stream.
std::vector<uint32_t> Permutation(uint32_t n, const RandomStream& random);

}  // namespace crema
