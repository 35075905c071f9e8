// A private copy of a file.
#pragma once

#include <string>

namespace crema::tools {

// A copy in memory, for mapping: writing to a mapped file would change the map, and truncating it
// would end the process. The copy lives as long as this object or a map of it. Thread safety:
// const.
class PrivateCopy {
 public:
  // Throws kNotFound, kIoFailure, kOutOfMemory.
  explicit PrivateCopy(const std::string& path);
  ~PrivateCopy();
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;

  const std::string& path() const { return path_; }  // valid in this process

 private:
  int descriptor_ = -1;
  std::string path_;
};

}  // namespace crema::tools
