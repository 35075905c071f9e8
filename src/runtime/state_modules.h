// The entries of a state dict, grouped by the module that has them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "format/state_dict.h"

namespace crema {

struct StateModule {
  std::string name;                    // "layer1.0.conv1"; of a recurrent layer "lstm.l0"
  std::map<std::string, int> entries;  // index by the last part: "weight", "weight_ih_l0", ""
};

// Whole numbers of other names than parameters have, such as num_batches_tracked, are in no module.
struct StateModules {
  // In file order. If the file has its entries in the order of their names, as safetensors does,
  // sorted by words and numbers: "conv2" before "conv10".
  std::vector<StateModule> modules;
  bool sorted = false;
  std::vector<std::string> names;  // of the entries, without `prefix`
  std::string prefix;              // "module." and the like, which all entries have
};

StateModules GroupEntries(const std::vector<StateEntry>& entries);

}  // namespace crema
