// Packed weights, shared by sessions over the same fixed weights.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/has_packed_weights.h"

namespace crema {

// Keeps weak references: entries end with the last session that uses them. Thread safety: any
// number of threads.
class PackedWeightCache {
 public:
  // Lets `state` use the packed weights of `key` if it can; else others may use its own.
  void Share(const std::string& key, HasPackedWeights* state);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<const PackedWeights>>> packed_;
};

}  // namespace crema
