// CTCGreedyDecoder, for both devices. See ctc_greedy_decoder.cc.
#pragma once

#include <cstdint>

#include "graph/layer.h"
#include "layers/as_double.h"

namespace crema {

struct CtcGreedy {
  CtcGreedy(const Layer& layer, const Shape& scores);

  // Writes the classes of sequence n, followed by -1, and the negative sum of the largest scores.
  // Null `score` means not needed. A NaN is never the largest score, unless it is that of class 0.
  template <typename T>
  CREMA_HOST_DEVICE void Decode(const T* scores, const T* indicators, int64_t n, T* y,
                                T* score) const {
    T* const out = y + n * steps;
    int64_t length = 0, before = -1;
    double sum = 0;
    for (int64_t t = 0; t < steps; ++t) {
      if (t > 0 && AsDouble(indicators[t * items + n]) == 0) break;  // the next sequence begins
      const T* row = scores + (t * items + n) * classes;
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        if (AsDouble(row[c]) > AsDouble(row[best])) best = c;
      }
      sum -= AsDouble(row[best]);
      if (best != blank && !(merges && best == before)) {
        out[length++] = static_cast<T>(static_cast<float>(best));
      }
      before = best;
    }
    for (int64_t t = length; t < steps; ++t) out[t] = static_cast<T>(-1.0F);
    if (score != nullptr) score[n] = static_cast<T>(static_cast<float>(sum));
  }

  // Returns the share of sequences that equal their targets, T x N, negative after the end.
  template <typename T>
  CREMA_HOST_DEVICE float Accuracy(const T* y, const T* targets) const {
    int64_t equal = 0;
    for (int64_t n = 0; n < items; ++n) {
      bool same = true;
      for (int64_t t = 0; t < steps && same; ++t) {
        const double found = AsDouble(y[n * steps + t]), target = AsDouble(targets[t * items + n]);
        same = target < 0 ? found < 0 : found == target;
        if (target < 0) break;
      }
      equal += same ? 1 : 0;
    }
    return items == 0 ? 0 : static_cast<float>(equal) / static_cast<float>(items);
  }

  int64_t steps, items, classes, blank;
  bool merges;
};

}  // namespace crema
