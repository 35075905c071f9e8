#include "data/lists/file_reader.h"

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"
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

std::string_view FileReader::ReadListed(uint64_t number, const std::string& path,
                                        const std::string& list, int64_t line,
                                        std::string* storage) {
  try {
    return Read(number, path, storage);
  } catch (const Error& error) {
    Problem problem = error.problems().front();
    if (line > 0) problem.message += StrCat(" (line ", line, " of '", list, "')");
    throw Error(std::move(problem));
  }
}

void FileReader::Announce(uint64_t number, const std::string& path) const {
  if (!cache_ || cache_->Find(number) == nullptr) AnnounceReading(path);
}

}  // namespace crema
