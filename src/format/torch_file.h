// .pth and .pt: files of torch.save, in the zip format since PyTorch 1.6 and in the one before.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "format/pickle.h"
#include "format/state_dict.h"

namespace crema {

// Returns true if a file begins as one of the older format.
bool LooksLikeOldTorchFile(std::string_view start);

// Throws as OpenStateDict. The zip format needs a build with minizip.
std::unique_ptr<StateDict> OpenTorchZip(const std::string& path, const std::string& key);
std::unique_ptr<StateDict> OpenOldTorchFile(const std::string& path, const std::string& key);

// A state dict within a pickle: names of tensors, by index, in order.
struct PickledStateDict {
  std::string key;
  std::vector<std::pair<std::string, size_t>> tensors;
};

// Finds the dict with this key (as of OpenStateDict). `path` is for messages. Throws
// kInvalidArgument if there is none, or several and no key.
PickledStateDict FindStateDict(const Pickle& pickle, const std::string& key,
                               const std::string& path);

}  // namespace crema
