// .npz: a zip of .npy files, by minizip. Excluded from builds without it; see tensor_files.cc.
#include <minizip/unzip.h>
#include <minizip/zip.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/npy.h"
#include "format/tensor_files.h"

namespace crema {
namespace {

constexpr std::string_view kNpyEnd = ".npy";
constexpr uint64_t kMostEntryBytes = uint64_t{1} << 34;  // 2^31 doubles
constexpr unsigned kChunk = 1U << 24;

// Returns true if a zip ends where its last record says. minizip accepts files truncated within it.
bool EndsAsZip(const RandomFile& file) {
  constexpr uint64_t kRecord = 22, kMostComment = UINT16_MAX;
  const uint64_t most = std::min(file.size(), kRecord + kMostComment);
  const std::string tail = file.Read(file.size() - most, most);
  const size_t at = tail.rfind("PK\x05\x06");
  if (at == std::string::npos || tail.size() - at < kRecord) return false;
  const auto byte = [&](size_t i) { return size_t{static_cast<uint8_t>(tail[at + i])}; };
  return tail.size() - at == kRecord + byte(20) + 256 * byte(21);
}

class ZipReader {
 public:
  explicit ZipReader(const std::string& path) : path_(path), file_(path) {
    if (EndsAsZip(file_)) zip_ = unzOpen64(path.c_str());
    if (zip_ == nullptr) Damaged("its list of contents cannot be found");
  }
  ~ZipReader() { unzClose(zip_); }
  ZipReader(const ZipReader&) = delete;
  ZipReader& operator=(const ZipReader&) = delete;

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    ForEach([&](const std::string& name, const unz_file_info64&) { names.push_back(name); });
    return names;
  }

  std::vector<NamedArray> Read(std::span<const std::string> wanted) {
    std::vector<NamedArray> arrays;
    ForEach([&](const std::string& name, const unz_file_info64& info) {
      if (std::ranges::count(wanted, name) == 0) return;
      const std::string file = StrCat(path_, ": ", name, kNpyEnd);
      arrays.push_back({.name = name, .value = ParseNpy(Contents(info, name, file), file)});
    });
    return arrays;
  }

 private:
  // Calls `body` with the name of each array, without .npy, and its directory entry.
  template <typename Body>
  void ForEach(const Body& body) {
    std::set<std::string> names;
    int status = unzGoToFirstFile(zip_);
    for (; status == UNZ_OK; status = unzGoToNextFile(zip_)) {
      unz_file_info64 info = {};
      const std::string name = NameOfCurrent(&info);
      if (!names.insert(name).second) Damaged(StrCat("it has '", name, "' twice"));
      body(name, info);
    }
    if (status != UNZ_END_OF_LIST_OF_FILE && !(names.empty() && status == UNZ_BADZIPFILE)) {
      Damaged("its list of contents is broken");
    }
  }

  [[noreturn]] void Damaged(const std::string& what) const {
    Fail(ErrorCode::kDataLoss, StrCat("is no whole .npz file: ", what), {.file = path_});
  }

  std::string NameOfCurrent(unz_file_info64* info) const {
    std::string name(256, '\0');
    if (unzGetCurrentFileInfo64(zip_, info, name.data(), name.size(), nullptr, 0, nullptr, 0) !=
        UNZ_OK) {
      Damaged("its list of contents is broken");
    }
    if (info->size_filename >= name.size()) Damaged("it has a name of more than 255 bytes");
    name.resize(info->size_filename);
    if (!name.ends_with(kNpyEnd)) Damaged(StrCat("it holds '", name, "', which is no .npy file"));
    return name.substr(0, name.size() - kNpyEnd.size());
  }

  // Does not trust the size in the entry: deflate compresses to a thousandth at best, and the
  // header of the array must agree.
  std::string Contents(const unz_file_info64& info, const std::string& name,
                       const std::string& file) {
    constexpr uint64_t kMostCompression = 1100;
    if ((info.flag & 1) != 0) {
      Fail(ErrorCode::kUnsupported, "is encrypted", {.file = path_});
    }
    if (info.uncompressed_size > kMostEntryBytes ||
        info.uncompressed_size / kMostCompression > info.compressed_size + 1) {
      Damaged(StrCat("'", name, "' says that it is larger than it can be"));
    }
    if (info.compressed_size > file_.size()) {
      Damaged(StrCat("'", name, "' is larger than the file"));
    }
    if (unzOpenCurrentFile(zip_) != UNZ_OK) Damaged(StrCat("'", name, "' cannot be unpacked"));
    std::string bytes(std::min<uint64_t>(info.uncompressed_size, kMostNpyStart), '\0');
    size_t at = Unpack(&bytes, 0);
    if (at == bytes.size()) {
      CheckNpyStart(bytes, info.uncompressed_size, file);
      bytes.resize(info.uncompressed_size);
      at = Unpack(&bytes, at);
    }
    // Also verifies the checksum.
    if (unzCloseCurrentFile(zip_) != UNZ_OK || at != bytes.size()) {
      Damaged(StrCat("'", name, "' is altered or cut off"));
    }
    return bytes;
  }

  // Fills `bytes` from `at` on; returns the end.
  size_t Unpack(std::string* bytes, size_t at) {
    int got = 1;
    while (at < bytes->size() && got > 0) {
      const auto most = static_cast<unsigned>(std::min<size_t>(kChunk, bytes->size() - at));
      got = unzReadCurrentFile(zip_, bytes->data() + at, most);
      if (got > 0) at += static_cast<size_t>(got);
    }
    return at;
  }

  const std::string& path_;
  const RandomFile file_;
  unzFile zip_ = nullptr;
};

class ZipWriter {
 public:
  ZipWriter(const std::string& path, const std::string& temporary)
      : path_(path), zip_(zipOpen64(temporary.c_str(), APPEND_STATUS_CREATE)) {
    Check(zip_ != nullptr);
  }
  ~ZipWriter() {
    if (zip_ != nullptr) zipClose(zip_, nullptr);
  }
  ZipWriter(const ZipWriter&) = delete;
  ZipWriter& operator=(const ZipWriter&) = delete;

  // Stored without compression, like numpy.savez: floats hardly compress.
  void Add(const std::string& name, const std::string& bytes) {
    zip_fileinfo info = {};
    info.tmz_date.tm_year = 1980;  // no timestamps: equal arrays give equal bytes
    info.tmz_date.tm_mday = 1;
    constexpr uint64_t kSmall = UINT32_MAX;
    Check(zipOpenNewFileInZip64(zip_, name.c_str(), &info, nullptr, 0, nullptr, 0, nullptr, 0, 0,
                                bytes.size() >= kSmall) == ZIP_OK);
    for (size_t at = 0; at < bytes.size(); at += kChunk) {
      const auto size = static_cast<unsigned>(std::min<size_t>(kChunk, bytes.size() - at));
      Check(zipWriteInFileInZip(zip_, bytes.data() + at, size) == ZIP_OK);
    }
    Check(zipCloseFileInZip(zip_) == ZIP_OK);
  }

  void Close() {
    const int status = zipClose(zip_, nullptr);
    zip_ = nullptr;
    Check(status == ZIP_OK);
  }

 private:
  void Check(bool fine) const {
    if (!fine) Fail(ErrorCode::kIoFailure, "cannot be written; is the disk full?", {.file = path_});
  }

  const std::string& path_;
  zipFile zip_;
};

}  // namespace

std::vector<std::string> NpzNames(const std::string& path) { return ZipReader(path).Names(); }

std::vector<NamedArray> ReadNpz(const std::string& path, std::span<const std::string> wanted) {
  return ZipReader(path).Read(wanted);
}

void WriteNpz(const std::string& path, std::span<const NamedArrayView> arrays) {
  uint64_t bytes = 0;
  for (const NamedArrayView& array : arrays) bytes += array.value.bytes();
  AtomicFile file(path, bytes);
  ZipWriter writer(path, file.temporary());
  for (const NamedArrayView& array : arrays) {
    writer.Add(StrCat(array.name, kNpyEnd), FormatNpy(array.value));
  }
  writer.Close();
  file.Commit();
}

}  // namespace crema
