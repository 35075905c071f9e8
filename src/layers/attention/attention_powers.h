// The softmax of attention with its division left to the output, which is narrower than the
// probabilities, and its way back.
#pragma once

#include <cstdint>

#include "layers/attention/attention_head.h"

namespace crema {

// Products p of the queries from `first` on with the keys from 0 on -> powers e^(p + mask -
// largest), in place, with 0 for keys that are not seen. factors[q] times the powers of a query are
// its probabilities: 1 / their sum, and 0 where it sees no key.
void AttentionPowers(int64_t first, int64_t queries, int64_t keys, bool causal,
                     const HeadMask<float>& mask, float* p, float* factors);

// dp = p (dp - sum of dp p) row by row, and 0 where p is, whatever dp is there: from the gradients
// of probabilities to those of products.
void AttentionScoreGradients(int64_t queries, int64_t keys, const float* p, float* dp);

}  // namespace crema
