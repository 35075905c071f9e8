// Zip files, read by minizip. A build without it has no definitions (CREMA_HAVE_ZIP).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "format/file.h"

namespace crema {

// Trusts no size in the file. Thread safety: one thread.
class ZipFile {
 public:
  struct Entry {
    std::string name;
    uint64_t size = 0;
    uint64_t compressed_size = 0;  // `size` if stored without compression
    bool encrypted = false;
    uint64_t place_in_list = 0;
    uint64_t index = 0;
  };
  // Receives the first bytes of an entry; throws to stop before the rest is unpacked.
  using CheckStart = std::function<void(std::string_view start)>;

  // Reads the list of contents. `format` is for messages: ".npz". Throws kDataLoss for a damaged
  // or truncated file and for two entries of one name, and what RandomFile throws.
  ZipFile(const std::string& path, std::string format);
  ~ZipFile();
  ZipFile(const ZipFile&) = delete;
  ZipFile& operator=(const ZipFile&) = delete;

  const std::string& path() const { return file_.path(); }
  const std::vector<Entry>& entries() const { return entries_; }

  // Returns the contents of an entry, after `check_start` of its first `start_bytes` bytes. Throws
  // kDataLoss if it is altered, truncated, or says that it is larger than it can be; kUnsupported
  // if it is encrypted.
  std::string Read(const Entry& entry, uint64_t start_bytes = 0,
                   const CheckStart& check_start = {});

  // Throws kDataLoss: the file is not a complete file of its format.
  [[noreturn]] void Damaged(const std::string& what) const;

 private:
  void List();
  Entry Current() const;
  void CheckSizes(const Entry& entry) const;
  size_t Unpack(std::string* bytes, size_t at);

  const std::string format_;
  const RandomFile file_;
  void* zip_ = nullptr;  // minizip's unzFile
  std::vector<Entry> entries_;
};

}  // namespace crema
