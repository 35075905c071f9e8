// The files that a command reads, which it must not write.
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "deploy/pictures.h"

namespace crema::tools {

// Thread safety: const methods.
class KeptFiles {
 public:
  // Paths of what is no file, or not there, are ignored.
  explicit KeptFiles(const std::vector<std::string>& paths);
  explicit KeptFiles(const std::vector<PictureSource>& sources);

  // Throws kInvalidArgument where `output`, which the flag names, is one of the files, by whatever
  // path or link.
  void RefuseToReplace(const std::string& flag, const std::string& output) const;

 private:
  void Add(const std::string& path);

  std::set<std::pair<dev_t, ino_t>> files_;
};

}  // namespace crema::tools
