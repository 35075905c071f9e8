// Compares an imported net with the files that were written of it.
#pragma once

#include <string>

#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema {

// Runs both nets on the same random inputs, or zeros if the first refuses random ones, and compares
// all blobs that have one name, in the order of the first net. `a` has its parameters as blobs, `b`
// those of the caffemodel `weights`; no name: none. Throws kInternal with the first blob whose
// largest difference is above `tolerance` times its largest magnitude; what planning, reading and
// running throw.
void CheckSameNets(const NetParameter& a, const NetFile& b, const std::string& weights,
                   double tolerance);

}  // namespace crema
