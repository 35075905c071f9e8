// Walks over the entries of a folder.
#pragma once

#include <filesystem>
#include <system_error>

namespace crema {

// Moves to the next entry; sets `error` and ends the walk if the folder cannot be read further.
// Throws std::bad_alloc, where directory_iterator::increment(error) is noexcept and ends the
// process.
inline void Advance(std::filesystem::directory_iterator& entry, std::error_code& error) {
  try {
    ++entry;
  } catch (const std::filesystem::filesystem_error& failure) {
    error = failure.code();
    entry = {};
  }
}

}  // namespace crema
