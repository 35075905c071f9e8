// A file in memory that can be cut, or fail, without ending the process.
#pragma once

#include <cstddef>
#include <string>

namespace crema {

// The first bytes of a file, mapped to be read. A page that cannot be read (the file was cut, or
// the disk failed) holds zeros from then on instead of ending the process with SIGBUS, and `lost`
// says so. The first map of a process installs a handler of SIGBUS, which passes on what is not its
// own. Only loads are guarded: a system call that is given such a page fails with EFAULT. Thread
// safety: any thread.
class GuardedMap {
 public:
  // Requires: bytes > 0. `path` is for messages. Throws kOutOfMemory (no addresses left),
  // kIoFailure (a file system that maps no files).
  GuardedMap(int descriptor, size_t bytes, const std::string& path);
  ~GuardedMap();
  GuardedMap(const GuardedMap&) = delete;
  GuardedMap& operator=(const GuardedMap&) = delete;

  const char* data() const;
  size_t size() const { return bytes_; }
  // True once a page could not be read.
  bool lost() const;

  struct Range;

 private:
  const size_t bytes_;
  Range* range_ = nullptr;
};

}  // namespace crema
