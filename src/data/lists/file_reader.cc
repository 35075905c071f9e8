#include "data/lists/file_reader.h"

#include "data/lists/data_file.h"
#include "format/file.h"

namespace crema {

std::string_view FileReader::Read(uint64_t number, const std::string& path, std::string* storage) {
  if (cache_) {
    if (const std::string* kept = cache_->Find(number)) return *kept;
  }
  *storage = ReadDataFile(path);
  if (cache_) cache_->Keep(number, *storage, storage->size());
  return *storage;
}

void FileReader::Announce(uint64_t number, const std::string& path) const {
  if (!cache_ || cache_->Find(number) == nullptr) AnnounceReading(path);
}

}  // namespace crema
