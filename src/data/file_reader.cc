#include "data/file_reader.h"

#include "format/file.h"

namespace crema {

std::string_view FileReader::Read(const std::string& path, std::string* storage) {
  if (!cache_) {
    *storage = ReadFile(path);
    return *storage;
  }
  auto found = files_.find(path);
  if (found == files_.end()) found = files_.emplace(path, ReadFile(path)).first;
  return found->second;
}

}  // namespace crema
