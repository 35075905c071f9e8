// Changes the number of classes of a net.
#pragma once

#include <string>
#include <vector>

#include "crema.pb.h"

namespace crema::tools {

// Gives every loss of labels, and the layers that make its scores, `classes` classes. Removes
// metrics of the best k that all classes would pass. Returns the names of the layers with other
// parameters. Throws kUnsupported for a net whose scores do not come from a layer that learns.
std::vector<std::string> SetClasses(int classes, NetParameter* net);

// For a net that starts from weights: renames layers `names` whose parameters in `file` are those
// of another number of classes, so that they start anew, and lets them learn ten times as fast.
// Returns the new names. Throws what ReadCaffemodel throws.
std::vector<std::string> RenameUnlikeWeights(const std::vector<std::string>& names,
                                             const std::string& file, NetParameter* net);

}  // namespace crema::tools
