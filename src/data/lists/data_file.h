// Files that data sets are made of: images, annotations, lists.
#pragma once

#include <string>

namespace crema {

// The whole file, as ReadFile, but a pipe is not waited for, and what is no file is a fault of the
// data. Throws kNotFound, kIoFailure, or kDataLoss for a folder, a pipe, a socket or a device, and
// for a file that is larger than kMaxFileBytes. Thread safety: any number of threads.
std::string ReadDataFile(const std::string& path);

}  // namespace crema
