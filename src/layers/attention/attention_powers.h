// The softmax of attention with its division left to the output, which is narrower than the
// probabilities: for passes that do not keep these.
#pragma once

#include <cstdint>

#include "layers/attention/attention_head.h"

namespace crema {

// Products p of the queries from `first` on with the keys from 0 on -> powers e^(p + mask -
// largest), in place, with 0 for keys that are not seen. factors[q] times the powers of a query are
// its probabilities: 1 / their sum, and 0 where it sees no key.
void AttentionPowers(int64_t first, int64_t queries, int64_t keys, bool causal,
                     const HeadMask<float>& mask, float* p, float* factors);

}  // namespace crema
