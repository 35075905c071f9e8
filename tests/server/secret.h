// Files of tokens for tests.
#pragma once

#include <filesystem>
#include <string>

#include "support/temp_dir.h"

namespace crema::test {

constexpr const char* kAdminToken = "an-admin-token-of-some-length";

// Writes a file that only its owner may read. Returns its path.
inline std::string WriteSecret(const TempDir& folder, const std::string& name,
                               const std::string& text) {
  std::string path = folder.Write(name, text);
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return path;
}

}  // namespace crema::test
