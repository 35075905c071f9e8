// Reads the times of `profile --json`.
#pragma once

#include <map>
#include <string>

namespace crema::tools {

struct LayerTimes {
  double forward_ms = 0;
  double backward_ms = 0;  // 0: no backward pass
  double share = 0;        // of the iteration, 0 to 1
  double total_ms() const { return forward_ms + backward_ms; }
};

// Returns the times by layer name. Throws kDataLoss for a file of something else, kIoFailure.
std::map<std::string, LayerTimes> ReadLayerTimes(const std::string& path);

}  // namespace crema::tools
