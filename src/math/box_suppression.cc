#include "math/box_suppression.h"

#include <algorithm>

namespace crema {

std::vector<int64_t> BestFirst(std::span<const double> scores, double least, int64_t most) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] > least) order.push_back(static_cast<int64_t>(i));
  }
  const auto better = [&](int64_t a, int64_t b) {
    const double x = scores[static_cast<size_t>(a)];
    const double y = scores[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const bool all = most < 0 || most >= static_cast<int64_t>(order.size());
  const auto middle = all ? order.end() : order.begin() + most;
  std::partial_sort(order.begin(), middle, order.end(), better);
  order.erase(middle, order.end());
  return order;
}

std::vector<int64_t> Suppress(std::span<const Box> boxes, std::span<const int64_t> candidates,
                              const SuppressionRule& rule) {
  std::vector<int64_t> kept;
  double threshold = rule.threshold;
  for (const int64_t candidate : candidates) {
    if (rule.most >= 0 && static_cast<int64_t>(kept.size()) >= rule.most) break;
    const Box& box = boxes[static_cast<size_t>(candidate)];
    const bool stays = std::ranges::all_of(kept, [&](int64_t k) {
      return Overlap(box, boxes[static_cast<size_t>(k)], rule.units) <= threshold;
    });
    if (!stays) continue;
    kept.push_back(candidate);
    if (rule.eta < 1 && threshold > 0.5) threshold *= rule.eta;
  }
  return kept;
}

}  // namespace crema
