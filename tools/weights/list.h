// weights list.
#pragma once

#include <string>

#include "common/weights_file.h"

namespace crema::tools {

// Returns a line for each blob: layer, blob, shape, type in the file, least and largest value and
// mean; then the totals. Values that are not finite are counted and left out of the three numbers.
std::string ListWeights(const StoredWeights& weights);

}  // namespace crema::tools
