// Files from http(s) addresses.
#pragma once

#include <cstdint>
#include <string>

namespace crema::tools {

// Returns true for http:// and https://.
bool IsUrl(const std::string& place);

// Returns the body. Throws kNotFound for 404, kIoFailure for other failures and above `most_bytes`,
// kUnsupported if this build has no libcurl.
std::string DownloadText(const std::string& url, size_t most_bytes);

// Writes the body to `path`. If the file has a beginning of it from an earlier try, continues there
// if the server can. A transfer that fails leaves what has arrived. Throws like DownloadText.
void DownloadFile(const std::string& url, const std::string& path, uint64_t bytes);

}  // namespace crema::tools
