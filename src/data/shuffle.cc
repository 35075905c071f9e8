#include "data/shuffle.h"

#include <numeric>
#include <utility>

namespace crema {

std::vector<uint32_t> Permutation(uint32_t n, const RandomStream& random) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  for (uint32_t left = n; left > 1; --left) {  // Fisher and Yates
    std::swap(order[left - 1], order[random.Below(left, left)]);
  }
  return order;
}

}  // namespace crema
