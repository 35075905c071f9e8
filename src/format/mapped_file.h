// A file as memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

// A whole regular file, read only, mapped: pages come from the disk when they are looked at first,
// and processes that map one file share them. Who writes to the file or cuts it meanwhile changes
// what is seen or ends this process (SIGBUS): files are to be replaced by renaming, as AtomicFile
// does. Thread safety: const.
class MappedFile {
 public:
  // Throws as RandomFile; kIoFailure where it cannot be mapped.
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
