// The classification extension: returns the best classes of an output as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/shape.h"
#include "server/protocol/infer_message.h"

namespace crema::server {

struct Classification {
  Shape shape;                     // samples x classes
  std::vector<std::string> texts;  // "score:index:label", or "score:index" without labels
};

// Accepts an output of N x anything, also empty. Requires: most > 0.
Classification BestClasses(const OutputTensor& output, int64_t most,
                           const std::vector<std::string>& labels);

}  // namespace crema::server
