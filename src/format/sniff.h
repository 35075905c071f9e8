// Detects file formats, so that errors can name a wrong one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace crema {

enum class Content {
  kEmpty,  // or only white space
  kText,
  kUtf16,
  kHtml,
  kXml,
  kLfsPointer,  // Git's placeholder for a large file that was not fetched
  kHdf5,
  kImage,       // JPEG, PNG, GIF, TIFF, WebP
  kCompressed,  // gzip, zip, xz, bzip2, zstd, 7z, rar
  kTar,
  kNumpy,    // .npy
  kPyTorch,  // .pt, .pth
  kSafetensors,
  kCrema,   // model of deploy export
  kBinary,  // anything else
};

// The first bytes of a model of deploy export. The first one never occurs in text; the line ends
// reveal a transfer that converted them.
inline constexpr std::string_view kCremaMagic =
    "\x89"
    "CRM\r\n\x1a\n";

// Bytes that suffice to detect formats other than text.
inline constexpr size_t kSniffBytes = 512;

Content Sniff(std::string_view bytes);

// Describes the file and the remedy, for formats other than text, HDF5 and plain binary: "is an
// HTML page, not <expected>: ...". `expected` has its article, as "a net".
std::string DescribeWrongContent(Content content, std::string_view expected);

// Returns true for a model of deploy export: the file has its extension, or begins like one.
bool IsCremaFile(const std::string& path);

}  // namespace crema
