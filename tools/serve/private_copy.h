// A file that nobody else can change.
#pragma once

#include <string>

namespace crema::tools {

// A copy in memory of a file, for one who maps it: where the file itself is written into while it
// is mapped, the map changes, and ends the process where the file becomes shorter. The copy lives
// as long as this or a map of it. Thread safety: const.
class PrivateCopy {
 public:
  // Throws kNotFound, kIoFailure, kOutOfMemory.
  explicit PrivateCopy(const std::string& path);
  ~PrivateCopy();
  PrivateCopy(const PrivateCopy&) = delete;
  PrivateCopy& operator=(const PrivateCopy&) = delete;

  const std::string& path() const { return path_; }  // opens it in this process

 private:
  int descriptor_ = -1;
  std::string path_;
};

}  // namespace crema::tools
