#include "inference/best_classes.h"

#include <algorithm>
#include <cmath>

namespace crema {

std::vector<Prediction> BestFirst(std::span<const float> scores, size_t most) {
  std::vector<Prediction> all;
  all.reserve(scores.size());
  for (const float score : scores) all.push_back({static_cast<int>(all.size()), score});
  const size_t kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const Prediction& a, const Prediction& b) {
                      if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(b.score);
                      if (a.score > b.score || a.score < b.score) return a.score > b.score;
                      return a.index < b.index;
                    });
  all.resize(kept);
  return all;
}

}  // namespace crema
