// weights fold: BatchNorm, and a Scale after it, become part of the layer before them.
#pragma once

#include <string>

#include "common/weights_file.h"
#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema::tools {

struct FoldedNet {
  NetParameter net;
  NetParameter weights;
  std::string report;  // a line for each BatchNorm: where it went, or why it stays
};

// Folds each BatchNorm whose stored statistics are used (in TEST), and the Scale that alone reads
// it, into the convolution or inner product that it alone reads. The result computes the same in
// TEST, and cannot be trained further as before. Throws kInvalidArgument if nothing can be folded
// (with the reasons), if layers of the net have no blobs in the file, or other shapes than
// expected.
FoldedNet FoldBatchNorms(const NetFile& file, const StoredWeights& weights);

}  // namespace crema::tools
