// Memory-mapped files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

// A regular file, mapped read-only: pages are loaded on first access and shared between processes.
// If the file is written or truncated while mapped, its contents change or the process ends
// (SIGBUS). Replace such files by renaming, as AtomicFile does. Thread safety: const.
class MappedFile {
 public:
  // Throws like RandomFile; kIoFailure if mapping fails.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::string_view bytes() const { return {static_cast<const char*>(data_), size_}; }

 private:
  std::string path_;
  void* data_ = nullptr;  // null: an empty file
  size_t size_ = 0;
};

}  // namespace crema
