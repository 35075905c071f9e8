// What the sessions over one set of fixed weights have made of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/has_packed_weights.h"

namespace crema {

// Holds nothing alive: what no session uses any more is gone. Thread safety: any number of threads.
class PackedWeightCache {
 public:
  // `state` uses what is there for `key` if it can; else others may use what it has.
  void Share(const std::string& key, HasPackedWeights* state);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<const PackedWeights>>> packed_;
};

}  // namespace crema
