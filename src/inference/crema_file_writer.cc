#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "format/file.h"
#include "format/seal.h"
#include "inference/crema_file.h"
#include "inference/crema_layout.h"

namespace crema {
namespace {

using namespace crema_layout;  // NOLINT: of this file's own kind

template <typename T>
void Put(T value, size_t at, std::string* bytes) {
  std::memcpy(bytes->data() + at, &value, sizeof(value));
}

// Assigns each tensor its offset; returns the size of the file.
uint64_t Place(CremaFileHeader* header) {
  ForEachTensor(*header, [](StoredTensor& tensor) { tensor.set_offset(0); });
  // Fixed-width offsets keep the size of the header.
  uint64_t end = Aligned(kHeaderAt + header->ByteSizeLong());
  ForEachTensor(*header, [&](StoredTensor& tensor) {
    tensor.set_offset(end);
    end = Aligned(end + tensor.bytes());
  });
  return end;
}

uint32_t FormatOf(const CremaFileHeader& header) {
  const bool is_third = std::ranges::any_of(header.learned(), [](const StoredTensor& tensor) {
    return tensor.type() == StoredTensor::I8;
  });
  const PreprocessingParameter& p = header.preprocessing();
  if (p.ten_crops()) return 4;
  if (is_third || p.fit() == "reshape") return 3;
  const bool is_second = p.has_range() || p.deviation_size() > 0 || p.has_fit() ||
                         p.has_short_side() || p.has_resize_height() || p.has_resize_width() ||
                         p.has_interpolation() || p.has_pad();
  return is_second ? 2 : 1;
}

std::string PrologueOf(uint32_t format, uint64_t file_size, uint64_t header_size) {
  std::string prologue(kHeaderAt, '\0');
  prologue.replace(0, kMagic.size(), kMagic);
  Put(format, kFormatAt, &prologue);
  Put(file_size, kSizeAt, &prologue);
  Put(header_size, kHeaderSizeAt, &prologue);
  return prologue;
}

// Writes and checksums, padding with zeros to the alignment.
class SummedFile {
 public:
  explicit SummedFile(AtomicFile* file) : file_(*file) {}

  void WritePrologue(const std::string& prologue) {
    file_.Write(prologue);
    const std::string_view bytes = prologue;
    crc_ = Crc32(bytes.substr(kChecksumAt + sizeof(uint32_t)), Crc32(bytes.substr(0, kChecksumAt)));
  }
  void WriteAligned(std::string_view bytes) {
    Write(bytes);
    Write(std::string(Aligned(bytes.size()) - bytes.size(), '\0'));
  }
  void WriteChecksum() {
    std::string checksum(sizeof(crc_), '\0');
    Put(crc_, 0, &checksum);
    file_.WriteAt(kChecksumAt, checksum);
  }

 private:
  void Write(std::string_view bytes) {
    file_.Write(bytes);
    crc_ = Crc32(bytes, crc_);
  }

  AtomicFile& file_;
  uint32_t crc_ = 0;
};

// Keeps the permissions of the previous file.
void KeepPermissions(const std::string& older, const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(older, error);
  if (error || !fs::is_regular_file(status)) return;
  fs::permissions(path, status.permissions() & fs::perms::all, error);
}

}  // namespace

void WriteCremaFile(CremaContents contents, const std::string& path,
                    const std::function<void(const std::string& path)>& check) {
  const uint64_t size = Place(&contents.header);
  const std::string header = contents.header.SerializeAsString();
  RemoveAbandoned(path);
  AtomicFile file(path, size);
  KeepPermissions(path, file.temporary());
  SummedFile out(&file);
  out.WritePrologue(PrologueOf(FormatOf(contents.header), size, header.size()));
  out.WriteAligned(header);
  size_t next = 0;
  ForEachTensor(contents.header, [&](const StoredTensor& tensor) {
    const ConstTensorView& value = contents.tensors.at(next++);
    CREMA_CHECK(value.bytes() == tensor.bytes());
    out.WriteAligned({static_cast<const char*>(value.raw()), value.bytes()});
  });
  CREMA_CHECK(next == contents.tensors.size());
  out.WriteChecksum();
  if (check) check(file.temporary());
  file.Commit();
}

}  // namespace crema
