// Excluded from builds without minizip.
#include <minizip/unzip.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/strings.h"
#include "format/zip_file.h"

namespace crema {
namespace {

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

}  // namespace

ZipFile::ZipFile(const std::string& path, std::string format)
    : format_(std::move(format)), file_(path) {
  if (EndsAsZip(file_)) zip_ = unzOpen64(path.c_str());
  if (zip_ == nullptr) Damaged("its list of contents cannot be found");
  try {
    List();
  } catch (...) {
    unzClose(zip_);
    throw;
  }
}

ZipFile::~ZipFile() { unzClose(zip_); }

void ZipFile::Damaged(const std::string& what) const {
  Fail(ErrorCode::kDataLoss, StrCat("is no whole ", format_, " file: ", what), {.file = path()});
}

void ZipFile::List() {
  std::set<std::string> names;
  int status = unzGoToFirstFile(zip_);
  for (; status == UNZ_OK; status = unzGoToNextFile(zip_)) {
    Entry entry = Current();
    if (!names.insert(entry.name).second) Damaged(StrCat("it has '", entry.name, "' twice"));
    entries_.push_back(std::move(entry));
  }
  if (status != UNZ_END_OF_LIST_OF_FILE && !(names.empty() && status == UNZ_BADZIPFILE)) {
    Damaged("its list of contents is broken");
  }
}

ZipFile::Entry ZipFile::Current() const {
  unz_file_info64 info = {};
  unz64_file_pos place = {};
  Entry entry{.name = std::string(256, '\0')};
  if (unzGetCurrentFileInfo64(zip_, &info, entry.name.data(), entry.name.size(), nullptr, 0,
                              nullptr, 0) != UNZ_OK ||
      unzGetFilePos64(zip_, &place) != UNZ_OK) {
    Damaged("its list of contents is broken");
  }
  if (info.size_filename >= entry.name.size()) Damaged("it has a name of more than 255 bytes");
  entry.name.resize(info.size_filename);
  entry.size = info.uncompressed_size;
  entry.compressed_size = info.compressed_size;
  entry.encrypted = (info.flag & 1) != 0;
  if (info.compression_method == 0 && !entry.encrypted && entry.size != entry.compressed_size) {
    Damaged(StrCat("'", entry.name, "' has two sizes"));
  }
  entry.place_in_list = place.pos_in_zip_directory;
  entry.index = place.num_of_file;
  return entry;
}

// Deflate compresses to a thousandth at best.
void ZipFile::CheckSizes(const Entry& entry) const {
  constexpr uint64_t kMostCompression = 1100;
  if (entry.encrypted) Fail(ErrorCode::kUnsupported, "is encrypted", {.file = path()});
  if (entry.size > kMostEntryBytes || entry.size / kMostCompression > entry.compressed_size + 1) {
    Damaged(StrCat("'", entry.name, "' says that it is larger than it can be"));
  }
  if (entry.compressed_size > file_.size()) {
    Damaged(StrCat("'", entry.name, "' is larger than the file"));
  }
}

std::string ZipFile::Read(const Entry& entry, uint64_t start_bytes, const CheckStart& check_start) {
  CheckSizes(entry);
  unz64_file_pos place = {.pos_in_zip_directory = entry.place_in_list, .num_of_file = entry.index};
  if (unzGoToFilePos64(zip_, &place) != UNZ_OK || unzOpenCurrentFile(zip_) != UNZ_OK) {
    Damaged(StrCat("'", entry.name, "' cannot be unpacked"));
  }
  std::string bytes(std::min(entry.size, start_bytes), '\0');
  size_t at = Unpack(&bytes, 0);
  if (at == bytes.size()) {
    if (check_start) check_start(bytes);
    bytes.resize(entry.size);
    at = Unpack(&bytes, at);
  }
  // Also verifies the checksum.
  if (unzCloseCurrentFile(zip_) != UNZ_OK || at != bytes.size()) {
    Damaged(StrCat("'", entry.name, "' is altered or cut off"));
  }
  return bytes;
}

// Fills `bytes` from `at` on; returns the end.
size_t ZipFile::Unpack(std::string* bytes, size_t at) {
  int got = 1;
  while (at < bytes->size() && got > 0) {
    const auto most = static_cast<unsigned>(std::min<size_t>(kChunk, bytes->size() - at));
    got = unzReadCurrentFile(zip_, bytes->data() + at, most);
    if (got > 0) at += static_cast<size_t>(got);
  }
  return at;
}

}  // namespace crema
