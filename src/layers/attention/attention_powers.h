// Softmax of attention with its division deferred to the output, which is narrower than the
// probabilities, and its gradient.
#pragma once

#include <cstdint>

#include "layers/attention/attention_head.h"

namespace crema {

// Replaces products p of the queries from `first` on with keys 0..keys-1 by powers e^(p + mask -
// maximum), with 0 for masked keys. Writes factors[q] = 1 / (sum of the powers of a query), or 0 if
// it attends to no key; factors[q] times the powers are the probabilities.
void AttentionPowers(int64_t first, int64_t queries, int64_t keys, bool causal,
                     const HeadMask<float>& mask, float* p, float* factors);

// dp = p (dp - sum of dp p) for each row, and 0 if p is 0, even if dp is infinite or NaN. Converts
// gradients of probabilities to gradients of products.
void AttentionScoreGradients(int64_t queries, int64_t keys, const float* p, float* dp);

}  // namespace crema
