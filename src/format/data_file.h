// Files that data sets are made of: images, annotations, lists.
#pragma once

#include <memory>
#include <string>

#include "format/file.h"

namespace crema {

// As RandomFile, but what is no file is a fault of the data. Throws kNotFound, kIoFailure, or
// kDataLoss for a folder, a pipe, a socket or a device, none of which is waited for. Thread safety:
// any number of threads.
std::unique_ptr<RandomFile> OpenDataFile(const std::string& path);

// The whole file. Throws as OpenDataFile, and kDataLoss for a file that is larger than
// kMaxFileBytes.
std::string ReadDataFile(const std::string& path);
// The same; messages begin with `what`, such as "the mean file".
std::string ReadDataFile(const std::string& path, const std::string& what);

}  // namespace crema
