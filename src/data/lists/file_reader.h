// Reads whole files, with an optional cache.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "data/pipeline/bounded_cache.h"

namespace crema {

// Thread safety: one thread at a time; any number of readers may share a cache.
class FileReader {
 public:
  // `cache` may be null.
  explicit FileReader(std::shared_ptr<FileCache> cache) : cache_(std::move(cache)) {}

  // Returns the bytes of file `number`, which are in `storage` or in the cache. Throws kNotFound,
  // kIoFailure, or kDataLoss for a path that is not a file, or a file above kMaxFileBytes.
  std::string_view Read(uint64_t number, const std::string& path, std::string* storage);
  // Does the same for the file in line `line` of a list, which errors name; 0: no list.
  std::string_view ReadListed(uint64_t number, const std::string& path, const std::string& list,
                              int64_t line, std::string* storage);
  // Announces that file `number` will be read soon, perhaps by another reader of the cache.
  void Announce(uint64_t number, const std::string& path) const;

 private:
  const std::shared_ptr<FileCache> cache_;
};

}  // namespace crema
