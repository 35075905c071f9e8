// Whole files, kept in memory where that is wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "data/pipeline/bounded_cache.h"

namespace crema {

// Thread safety: one thread at a time; any number of them share a cache.
class FileReader {
 public:
  // `cache` may be null.
  explicit FileReader(std::shared_ptr<FileCache> cache) : cache_(std::move(cache)) {}

  // The bytes of file `number`; they lie in `storage`, or in the cache. Throws kNotFound,
  // kIoFailure, or kDataLoss for what is no file, or larger than kMaxFileBytes.
  std::string_view Read(uint64_t number, const std::string& path, std::string* storage);
  // The same for a file that stands in line `line` of a list, which errors name; 0: in none.
  std::string_view ReadListed(uint64_t number, const std::string& path, const std::string& list,
                              int64_t line, std::string* storage);
  // Says that file `number` will be read soon, perhaps by another reader of the same cache.
  void Announce(uint64_t number, const std::string& path) const;

 private:
  const std::shared_ptr<FileCache> cache_;
};

}  // namespace crema
