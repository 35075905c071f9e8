// A file that is being fetched, under its name with ".part".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema::tools {

// Holds a lock: another process that fetches the same file waits. Thread safety: one thread.
class PartFile {
 public:
  // Opens or makes the file. Throws kIoFailure, also for a link, a pipe or a device.
  explicit PartFile(std::string path);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  void Append(std::string_view bytes);  // throws kIoFailure
  void Clear();                         // throws kIoFailure
  void Remove();
  // Writes all to the disk and gives the file its name. Throws kIoFailure.
  void Become(const std::string& path);

 private:
  void Open();
  [[noreturn]] void Fail(const char* what) const;

  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

}  // namespace crema::tools
