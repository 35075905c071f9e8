#include "layers/attention/attention_powers.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "math/fast_exp.h"
#include "math/vectorize.h"

namespace crema {
namespace {

constexpr int kLanes = 16;
constexpr float kLowest = -std::numeric_limits<float>::infinity();

// e^x for x <= 0 and NaN: FastExp without the handling of other x.
inline float PowerOf(float x) {
  constexpr float kLow = -86.6F;
  const ExpParts parts = SplitExp(x < kLow ? kLow : x);
  const float scale = std::bit_cast<float>((parts.power + 127) << 23);
  return (x < kLow ? 0.0F : scale) * parts.series;
}

// Ignores NaN, which reappears in the powers.
CREMA_MULTIVERSION float LargestOf(const float* row, int64_t count) {
  constexpr int kStep = 2 * kLanes;  // two independent chains
  float tops[kStep];
  for (float& top : tops) top = kLowest;
  for (int64_t k = 0; k + kStep <= count; k += kStep) {
    for (int l = 0; l < kStep; ++l) tops[l] = tops[l] < row[k + l] ? row[k + l] : tops[l];
  }
  if (count >= kStep) {  // the last elements, overlapping the ones above
    const float* last = row + count - kStep;
    for (int l = 0; l < kStep; ++l) tops[l] = tops[l] < last[l] ? last[l] : tops[l];
  } else {
    for (int64_t k = 0; k < count; ++k) tops[k] = tops[k] < row[k] ? row[k] : tops[k];
  }
  for (int half = kStep / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) tops[l] = tops[l] < tops[l + half] ? tops[l + half] : tops[l];
  }
  return tops[0];
}

// row = e^(row - top); returns the sum.
CREMA_MULTIVERSION float PowersOf(float* row, int64_t count, float top) {
  const int64_t whole = count / kLanes * kLanes;
  float sums[kLanes], rest[kLanes];
  for (int l = 0; l < kLanes; ++l) rest[l] = whole + l < count ? row[whole + l] : kLowest;
  for (int l = 0; l < kLanes; ++l) sums[l] = rest[l] = PowerOf(rest[l] - top);
  for (int64_t k = 0; k < whole; k += kLanes) {
    for (int l = 0; l < kLanes; ++l) {
      const float power = PowerOf(row[k + l] - top);
      row[k + l] = power;
      sums[l] += power;
    }
  }
  for (int64_t k = whole; k < count; ++k) row[k] = rest[k - whole];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  return sums[0];
}

CREMA_MULTIVERSION void ScoreGradientsOf(const float* p, int64_t count, float* dp) {
  const int64_t whole = count / kLanes * kLanes;
  float sums[kLanes] = {};
  for (int64_t k = 0; k < whole; k += kLanes) {
    for (int l = 0; l < kLanes; ++l) sums[l] += dp[k + l] * p[k + l];
  }
  for (int64_t k = whole; k < count; ++k) sums[k - whole] += dp[k] * p[k];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; ++l) sums[l] += sums[l + half];
  }
  const float sum = sums[0];
  for (int64_t k = 0; k < count; ++k) dp[k] = p[k] == 0 ? 0 : p[k] * (dp[k] - sum);
}

}  // namespace

void AttentionScoreGradients(int64_t queries, int64_t keys, const float* p, float* dp) {
  for (int64_t q = 0; q < queries; ++q) ScoreGradientsOf(p + q * keys, keys, dp + q * keys);
}

void AttentionPowers(int64_t first, int64_t queries, int64_t keys, bool causal,
                     const HeadMask<float>& mask, float* p, float* factors) {
  for (int64_t q = 0; q < queries; ++q) {
    const int64_t at = first + q;
    const int64_t visible = causal ? std::min(keys, at + 1) : keys;
    float* row = p + q * keys;
    for (int64_t k = 0; mask.data != nullptr && k < visible; ++k) {
      row[k] += mask.data[at * mask.query_step + k * mask.key_step];
    }
    std::fill(row + visible, row + keys, 0.0F);
    const float top = LargestOf(row, visible);
    // A row of NaN has this maximum too, but its powers must be NaN.
    const bool blind = top == kLowest && std::all_of(row, row + visible,
                                                     [](float value) { return value == kLowest; });
    if (blind) std::fill(row, row + visible, 0.0F);
    factors[q] = blind ? 0.0F : 1 / PowersOf(row, visible, top);
  }
}

}  // namespace crema
