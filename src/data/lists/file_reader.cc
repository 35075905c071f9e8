#include "data/lists/file_reader.h"

#include "core/error.h"
#include "format/file.h"

namespace crema {
namespace {

// As ReadFile, but a pipe is not waited for. What is no file is a fault of the data, not of the
// net.
std::string ReadSample(const std::string& path) {
  try {
    const RandomFile file(path);
    if (file.size() > kMaxFileBytes) {
      Fail(ErrorCode::kDataLoss, "is larger than 2 GiB", {.file = path});
    }
    return file.Read(0, static_cast<size_t>(file.size()));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    Fail(ErrorCode::kDataLoss, error.problems().front().message, {.file = path});
  }
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

void FileReader::Announce(uint64_t number, const std::string& path) const {
  if (!cache_ || cache_->Find(number) == nullptr) AnnounceReading(path);
}

}  // namespace crema
