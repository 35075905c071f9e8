// Opens files of data sets: images, annotations, lists.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "format/file.h"

namespace crema {

class LabelMap;

// Like RandomFile, but reports an unsuitable path as bad data. Throws kNotFound, kIoFailure, or
// kDataLoss for a folder, a pipe, a socket or a device, without blocking. Thread safety: any number
// of threads.
std::unique_ptr<RandomFile> OpenDataFile(const std::string& path);

// Reads the whole file. Throws like OpenDataFile, and kDataLoss above kMaxFileBytes.
std::string ReadDataFile(const std::string& path);
// The same; messages begin with `what`, such as "the mean file".
std::string ReadDataFile(const std::string& path, const std::string& what);

// Returns the text without the byte order mark that some editors write at its beginning.
inline std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

// Reads a LabelMap file in text form. Throws kInvalidArgument, or what ReadDataFile throws.
LabelMap ReadLabelMap(const std::string& path);

}  // namespace crema
