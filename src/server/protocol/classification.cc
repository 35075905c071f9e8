#include "server/protocol/classification.h"

#include <algorithm>

#include "core/strings.h"
#include "inference/classifier.h"

namespace crema::server {

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
    for (const Prediction& best : BestFirst(scores, static_cast<size_t>(most))) {
      std::string text = StrCat(static_cast<float>(best.score), ":", best.index);
      const auto label = static_cast<size_t>(best.index);
      if (label < labels.size()) text += StrCat(":", labels[label]);
      result.texts.push_back(std::move(text));
    }
  }
  return result;
}

}  // namespace crema::server
