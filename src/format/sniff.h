// What kind of file some bytes come from, so that a wrong one is named for what it is.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

enum class Content {
  kEmpty,  // or only blanks
  kText,
  kUtf16,
  kHtml,        // also XML
  kLfsPointer,  // what Git leaves in place of a large file that was not fetched
  kHdf5,
  kImage,       // JPEG, PNG, GIF, TIFF, WebP
  kCompressed,  // gzip, zip, xz, bzip2, zstd, 7z, rar
  kTar,
  kNumpy,    // .npy
  kPyTorch,  // .pt, .pth
  kBinary,   // anything else
};

// Enough of a file's start to tell the kinds that are not text.
inline constexpr size_t kSniffBytes = 512;

Content Sniff(std::string_view bytes);

// What it is and what to do, for the kinds that are neither text nor HDF5 nor plain binary: "is an
// HTML page, not <expected>: ...". `expected` has its article, as "a net".
std::string DescribeWrongContent(Content content, std::string_view expected);

}  // namespace crema
