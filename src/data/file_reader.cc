#include "data/file_reader.h"

#include "core/error.h"
#include "format/file.h"

namespace crema {
namespace {

// As ReadFile, but a pipe is an error: nobody may ever write into it, and it can be read once only.
std::string ReadSample(const std::string& path) {
  const RandomFile file(path);
  if (file.size() > kMaxFileBytes) {
    Fail(ErrorCode::kDataLoss, "is larger than 2 GiB", {.file = path});
  }
  return file.Read(0, static_cast<size_t>(file.size()));
}

}  // namespace

std::string_view FileReader::Read(uint64_t number, const std::string& path, std::string* storage) {
  if (cache_) {
    if (const std::string* kept = cache_->Find(number)) return *kept;
  }
  *storage = ReadSample(path);
  if (cache_) cache_->Keep(number, *storage, storage->size());
  return *storage;
}

}  // namespace crema
