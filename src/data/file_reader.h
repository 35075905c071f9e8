// Whole files, kept in memory where that is wanted.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>

namespace crema {

// Thread safety: one thread at a time.
class FileReader {
 public:
  explicit FileReader(bool cache) : cache_(cache) {}

  // The bytes of a file; they lie in `storage`, or in the cache, which lives as long as this.
  // Throws what ReadFile throws.
  std::string_view Read(const std::string& path, std::string* storage);

 private:
  const bool cache_;
  std::unordered_map<std::string, std::string> files_;
};

}  // namespace crema
