// Walks over the entries of a folder.
#pragma once

#include <dirent.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

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

// Returns the names of the entries; sets `error` if the folder cannot be read. Throws
// std::bad_alloc, where the constructor of directory_iterator ends the process.
inline std::vector<std::string> NamesIn(const std::string& folder, std::error_code& error) {
  const auto fail = [&] { error.assign(errno, std::generic_category()); };
  const auto close = [](DIR* open) { ::closedir(open); };
  const std::unique_ptr<DIR, decltype(close)> open(::opendir(folder.c_str()), close);
  std::vector<std::string> names;
  if (!open) {
    fail();
    return names;
  }
  errno = 0;
  while (const dirent* entry = ::readdir(open.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
    errno = 0;
  }
  if (errno != 0) fail();
  return names;
}

}  // namespace crema
