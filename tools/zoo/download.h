// Files from http(s) addresses.
#pragma once

#include <cstdint>
#include <string>

#include "zoo/part_file.h"

namespace crema::tools {

// Returns true for http:// and https://.
bool IsUrl(const std::string& place);

// Returns the body. Throws kNotFound for 404, kIoFailure for other failures and above `most_bytes`,
// kUnsupported if this build has no libcurl.
std::string DownloadText(const std::string& url, size_t most_bytes);

// Appends to the file what it lacks of the body of `bytes` bytes. Starts again at the beginning if
// the server sends whole files only. A transfer that fails leaves what has arrived; a body that is
// too long leaves nothing. Throws like DownloadText, kDataLoss for such a body.
void DownloadFile(const std::string& url, uint64_t bytes, PartFile* file);

}  // namespace crema::tools
