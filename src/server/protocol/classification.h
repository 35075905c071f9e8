// The classification extension: the best classes of an output as text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

struct ScoredClass {
  int64_t index = 0;
  float score = 0;
};

// The best `most`, best first, ties by index; NaN comes last.
std::vector<ScoredClass> BestOf(std::span<const float> scores, int64_t most);

struct Classification {
  Shape shape;                     // samples x classes
  std::vector<std::string> texts;  // "score:index:label", or "score:index" without labels
};

// Of an output of N x anything, without rows or classes too. Requires: most > 0.
Classification BestClasses(const OutputTensor& output, int64_t most,
                           const std::vector<std::string>& labels);

}  // namespace crema::server
