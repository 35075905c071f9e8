// What the sessions over one set of fixed weights have made of them.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "graph/shares_weights.h"

namespace crema {

// Holds nothing alive: what no session uses any more is gone. Thread safety: any number of threads.
class KeptPool {
 public:
  // `state` uses what is there for `key` if it can; else others may use what it has.
  void Share(const std::string& key, SharesWeights* state);

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::weak_ptr<const KeptWeights>>> kept_;
};

}  // namespace crema
