#include "server/protocol/classification.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/strings.h"

namespace crema::server {

std::vector<ScoredClass> BestOf(std::span<const float> scores, int64_t most) {
  std::vector<ScoredClass> all;
  all.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) all.push_back({static_cast<int64_t>(i), scores[i]});
  const auto kept = std::min<int64_t>(most, static_cast<int64_t>(all.size()));
  std::partial_sort(all.begin(), all.begin() + kept, all.end(),
                    [](const ScoredClass& a, const ScoredClass& b) {
                      if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(b.score);
                      if (a.score > b.score || a.score < b.score) return a.score > b.score;
                      return a.index < b.index;
                    });
  all.resize(static_cast<size_t>(kept));
  return all;
}

Classification BestClasses(const OutputTensor& output, int64_t most,
                           const std::vector<std::string>& labels) {
  const int64_t samples = output.shape.axes() > 1 ? output.shape[0] : 1;
  const auto classes =
      static_cast<size_t>(output.shape.axes() > 1 ? output.shape.count(1) : output.shape.count());
  Classification result;
  result.shape = Shape{samples, std::min<int64_t>(most, static_cast<int64_t>(classes))};
  for (int64_t n = 0; n < samples; ++n) {
    const std::span<const float> scores =
        std::span(output.values).subspan(static_cast<size_t>(n) * classes, classes);
    for (const ScoredClass& best : BestOf(scores, most)) {
      std::string text = StrCat(best.score, ":", best.index);
      const auto label = static_cast<size_t>(best.index);
      if (label < labels.size()) text += StrCat(":", labels[label]);
      result.texts.push_back(std::move(text));
    }
  }
  return result;
}

}  // namespace crema::server
