// Forms with a file: multipart/form-data (RFC 7578).
#pragma once

#include <cstddef>
#include <string_view>

namespace crema::server {

// A form has at most so many bytes besides its file: 18 lines of 1 KiB and the last boundary.
inline constexpr size_t kMostFormBytes = size_t{19} << 10;

// Returns the file in the body of a request: the body itself, or the only part of a form if
// `content_type` is multipart/form-data. The result refers to `body`. Throws kBadRequest for a
// malformed form, and for one with no file, several parts, or an encoded file.
std::string_view FileOfBody(std::string_view content_type, std::string_view body);

}  // namespace crema::server
