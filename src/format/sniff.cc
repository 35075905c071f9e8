#include "format/sniff.h"

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"
#include "format/file.h"

namespace crema {
namespace {

using std::string_view_literals::operator""sv;

constexpr size_t kLooked = 4096;  // bytes used to distinguish text and binary

bool StartsWithAny(std::string_view bytes, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return bytes.starts_with(start); });
}

bool HasAt(std::string_view bytes, size_t at, std::string_view part) {
  return bytes.size() > at && bytes.substr(at).starts_with(part);
}

// A zip file with PyTorch's entries, or a pickle of old versions.
bool IsPyTorch(std::string_view bytes) {
  if (bytes.starts_with("\x80\x02\x8A\x0A\x6C\xFC\x9C\x46"sv)) return true;
  return bytes.starts_with("PK\x03\x04"sv) &&
         bytes.substr(0, kSniffBytes).find("/data.pkl") != std::string_view::npos;
}

bool IsTextByte(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte >= 0x20 && byte != 0x7F) || (byte >= '\t' && byte <= '\r');
}

}  // namespace

Content Sniff(std::string_view bytes) {
  bytes = WithoutByteOrderMark(bytes);
  if (Trim(bytes.substr(0, kLooked)).empty() && Trim(bytes).empty()) return Content::kEmpty;
  if (bytes.starts_with("\x89HDF\r\n\x1A\n"sv)) return Content::kHdf5;
  if (StartsWithAny(bytes, {"\xFF\xD8\xFF"sv, "\x89PNG\r\n"sv, "GIF8"sv, "II*\0"sv, "MM\0*"sv}) ||
      (bytes.starts_with("RIFF") && HasAt(bytes, 8, "WEBP"))) {
    return Content::kImage;
  }
  if (bytes.starts_with("\x93NUMPY"sv)) return Content::kNumpy;
  if (IsPyTorch(bytes)) return Content::kPyTorch;
  if (bytes.starts_with(kCremaMagic)) return Content::kCrema;
  // The length of a JSON header in 8 bytes.
  if (HasAt(bytes, 4, "\0\0\0\0{"sv)) return Content::kSafetensors;
  if (HasAt(bytes, 257, "ustar")) return Content::kTar;
  if (StartsWithAny(bytes,
                    {"\x1F\x8B\x08"sv, "PK\x03\x04"sv,
                     "\xFD"
                     "7zXZ\0"sv,
                     "BZh"sv, "\x28\xB5\x2F\xFD"sv, "7z\xBC\xAF\x27\x1C"sv, "Rar!\x1A\x07"sv})) {
    return Content::kCompressed;
  }
  if (StartsWithAny(bytes, {"\xFF\xFE"sv, "\xFE\xFF"sv})) return Content::kUtf16;
  const std::string_view head = bytes.substr(0, kLooked);
  if (!std::all_of(head.begin(), head.end(), IsTextByte)) return Content::kBinary;
  std::string start(Trim(head).substr(0, 64));
  std::transform(start.begin(), start.end(), start.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (StartsWithAny(start, {"<!doctype", "<html", "<head", "<!--"})) return Content::kHtml;
  if (start.starts_with("<?xml")) {
    return head.find("<html") == std::string_view::npos ? Content::kXml : Content::kHtml;
  }
  if (start.starts_with("version https://git-lfs")) return Content::kLfsPointer;
  return Content::kText;
}

std::string DescribeWrongContent(Content content, std::string_view expected) {
  switch (content) {
    case Content::kEmpty:
      return StrCat("is empty; expected ", expected, ": write or copy it again");
    case Content::kUtf16:
      return StrCat("is text in UTF-16; save it as UTF-8 to use it as ", expected);
    case Content::kHtml:
      return StrCat("is an HTML page, not ", expected,
                    ": a download probably saved the page about the file; download the raw file");
    case Content::kXml:
      return StrCat("is XML, not ", expected, ": give another file");
    case Content::kLfsPointer:
      return StrCat("is a Git LFS pointer, not ", expected,
                    ": fetch the real file with 'git lfs pull'");
    case Content::kHdf5:
      return StrCat("is an HDF5 file, not ", expected);
    case Content::kImage:
      return StrCat("is an image, not ", expected, ": give another file");
    case Content::kCompressed:
      return StrCat("is a compressed file, not ", expected, ": unpack it first");
    case Content::kTar:
      return StrCat("is a tar archive, not ", expected, ": unpack it first");
    case Content::kNumpy:
      return StrCat("is a NumPy array, not ", expected, ": give a file of Caffe");
    case Content::kPyTorch:
    case Content::kSafetensors:
      return StrCat("is a ", content == Content::kPyTorch ? "PyTorch" : "safetensors",
                    " file, not ", expected,
                    ": fill a net from it with 'crema import --weights=FILE --onto=NET -o OUT'");
    case Content::kCrema:
      return StrCat("is a model of deploy export, not ", expected,
                    ": deploy and serve take it with --model");
    case Content::kText:
      return StrCat("is a text file, not ", expected);
    case Content::kBinary:
      break;
  }
  return StrCat("is a binary file of another kind, not ", expected);
}

bool IsCremaFile(const std::string& path) {
  if (path.ends_with(".crema")) return true;
  try {
    return Sniff(ReadFileStart(path, kSniffBytes)) == Content::kCrema;
  } catch (const Error&) {
    return false;  // whoever reads it reports why
  }
}

}  // namespace crema
