// weights rename, copy and average.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/weights_file.h"
#include "crema.pb.h"

namespace crema::tools {

// Renames layers, all at once, so that names can be exchanged. Each rule is "OLD=NEW". Throws
// kInvalidArgument for other text, an OLD that is given twice and names that would be equal
// afterwards, kNotFound for a layer that is not there.
NetParameter RenameLayers(StoredWeights weights, std::span<const std::string> rules);

struct CopiedLayers {
  NetParameter net;
  std::vector<std::string> names;  // in `net`
};

// Copies the blobs of layers, "LAYER" or "LAYER=NEW", over those of the same name; a layer that
// `into` lacks is added. Without layers copies all that both have. Throws kNotFound for a layer
// that is not there, kInvalidArgument if shapes differ (naming all such blobs), two layers would
// get one name, or both files have no layer in common.
CopiedLayers CopyLayers(const StoredWeights& from, StoredWeights into,
                        std::span<const std::string> layers);

// Mean of files with the same layers and shapes.
class WeightsMean {
 public:
  // Throws kInvalidArgument, with all differences, unless layers and shapes are those of the first.
  void Add(StoredWeights weights);
  // Returns the mean. Requires: Add was called; this is the last call.
  NetParameter Take();

 private:
  StoredWeights first_;
  std::vector<std::vector<double>> sums_;  // by blob
  int count_ = 0;
};

}  // namespace crema::tools
