// .npz: a zip of .npy files, by minizip. Excluded from builds without it; see tensor_files.cc.
#include <minizip/zip.h>

#include <algorithm>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/npy.h"
#include "format/tensor_files.h"
#include "format/zip_file.h"

namespace crema {
namespace {

constexpr std::string_view kNpyEnd = ".npy";
constexpr unsigned kChunk = 1U << 24;

// Calls `body` with the name of each array, without .npy, and its entry.
template <typename Body>
void ForEachArray(const ZipFile& zip, const Body& body) {
  for (const ZipFile::Entry& entry : zip.entries()) {
    if (!entry.name.ends_with(kNpyEnd)) {
      zip.Damaged(StrCat("it holds '", entry.name, "', which is not a .npy file"));
    }
    body(entry.name.substr(0, entry.name.size() - kNpyEnd.size()), entry);
  }
}

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

std::vector<std::string> NpzNames(const std::string& path) {
  std::vector<std::string> names;
  ForEachArray(ZipFile(path, ".npz"),
               [&](const std::string& name, const ZipFile::Entry&) { names.push_back(name); });
  return names;
}

std::vector<NamedArray> ReadNpz(const std::string& path, std::span<const std::string> wanted) {
  std::vector<NamedArray> arrays;
  ZipFile zip(path, ".npz");
  ForEachArray(zip, [&](const std::string& name, const ZipFile::Entry& entry) {
    if (std::ranges::count(wanted, name) == 0) return;
    const std::string file = StrCat(path, ": ", entry.name);
    const std::string bytes = zip.Read(entry, kMostNpyStart, [&](std::string_view start) {
      CheckNpyStart(start, entry.size, file);
    });
    arrays.push_back({.name = name, .value = ParseNpy(bytes, file)});
  });
  return arrays;
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
