// Protects input files of a command from being overwritten.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deploy/pictures.h"

namespace crema::tools {

// Thread safety: const methods.
class ProtectedFiles {
 public:
  // Ignores missing paths and paths that are not files.
  explicit ProtectedFiles(const std::vector<std::string>& paths);
  explicit ProtectedFiles(const std::vector<PictureSource>& sources);

  // Throws kInvalidArgument if `output`, named by the flag, is one of the files, by any path or
  // link.
  void RefuseToReplace(const std::string& flag, const std::string& output) const;

 private:
  void Add(const std::string& path);

  std::set<std::pair<dev_t, ino_t>> files_;
};

}  // namespace crema::tools
