// Maps a file that may be truncated or fail without ending the process.
#pragma once

#include <cstddef>
#include <string>

namespace crema {

// Maps the first bytes of a file for reading. If a page cannot be read (truncated file, failing
// disk), it holds zeros from then on and lost() returns true, instead of SIGBUS ending the process.
// The first map of a process installs a SIGBUS handler that forwards foreign signals. Only loads
// are guarded: a system call on such a page fails with EFAULT. Thread safety: any thread.
class GuardedMap {
 public:
  // Requires: bytes > 0. `path` is for messages. Throws kOutOfMemory (no address space left),
  // kIoFailure (the file system does not support mapping).
  GuardedMap(int descriptor, size_t bytes, const std::string& path);
  ~GuardedMap();
  GuardedMap(const GuardedMap&) = delete;
  GuardedMap& operator=(const GuardedMap&) = delete;

  const char* data() const;
  size_t size() const { return bytes_; }
  // Returns true once a page could not be read.
  bool lost() const;

  struct Range;

 private:
  const size_t bytes_;
  Range* range_ = nullptr;
};

}  // namespace crema
