#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "data/records/datum.h"
#include "data/records/tar_archive.h"
#include "data/records/tar_shards.h"
#include "format/file.h"

namespace crema {
namespace {

// Returns the extension for a file's first bytes; empty if the reader does not support it.
std::string_view ImageExtension(std::string_view image) {
  using namespace std::string_view_literals;
  if (image.starts_with("\xFF\xD8\xFF"sv)) return "jpg";
  if (image.starts_with("\x89PNG"sv)) return "png";
  if (image.starts_with("BM"sv)) return "bmp";
  if (image.starts_with("II*\0"sv) || image.starts_with("MM\0*"sv)) return "tif";
  if (image.starts_with("RIFF"sv) && image.substr(8).starts_with("WEBP"sv)) return "webp";
  if (image.size() > 2 && image[0] == 'P' && image[1] >= '1' && image[1] <= '6') {
    constexpr std::array<std::string_view, 3> kNames = {"pbm", "pgm", "ppm"};
    return kNames[static_cast<size_t>(image[1] - '1') % 3];
  }
  return "";
}

// Converts planes (BGR or gray) to a file with rows of pixels.
std::string ToPortableMap(const PixelView& pixels) {
  const auto plane = static_cast<size_t>(pixels.height) * static_cast<size_t>(pixels.width);
  const auto channels = static_cast<size_t>(pixels.channels);
  std::string file =
      StrCat(channels == 1 ? "P5" : "P6", "\n", pixels.width, " ", pixels.height, "\n255\n");
  file.reserve(file.size() + channels * plane);
  for (size_t i = 0; i < plane; ++i) {
    for (size_t c = channels; c > 0; --c) {
      file += static_cast<char>(pixels.bytes[(c - 1) * plane + i]);
    }
  }
  return file;
}

// Removes dots, which end the name of a sample, and paths that leave the folder when unpacked.
std::string ToSampleName(std::string_view key) {
  key.remove_prefix(std::min(key.find_first_not_of('/'), key.size()));
  std::string name(key);
  for (char& c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '.' || c == '\\' || byte <= ' ' || byte == 0x7F) c = '_';
  }
  if (!name.empty() && name.back() == '/') name.back() = '_';
  return name;
}

class TarWriter final : public RecordWriter {
 public:
  TarWriter(const std::string& path, uint64_t shard_bytes)
      : path_(path), shard_bytes_(shard_bytes), single_(path.ends_with(".tar")) {
    if (!single_) {
      MakeDataSetFolder(path);
      return;
    }
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("'", path, "' exists already; choose another path"));
    }
  }

  ~TarWriter() override {
    if (closed_) return;
    shard_.reset();
    std::error_code ignored;
    for (const std::string& file : finished_) std::filesystem::remove(file, ignored);
    if (!single_) std::filesystem::remove(path_, ignored);
  }
  TarWriter(const TarWriter&) = delete;
  TarWriter& operator=(const TarWriter&) = delete;

  void Put(std::string_view key, std::string_view value) override {
    CREMA_CHECK(!closed_);
    DatumView datum;
    if (!parser_.Parse(value, &datum) || datum.annotated) FailRecord(key, "is not a Datum");
    const std::string name = ToSampleName(key);
    if (name.empty() || !names_.insert(name).second) {
      FailRecord(key, StrCat("would be the sample '", name,
                             name.empty() ? "'" : "', which was written already"));
    }
    const std::string raw = datum.encoded ? "" : EncodeRaw(key, value);
    const std::string_view image = datum.encoded ? datum.data : raw;
    const std::string_view extension = ImageExtension(image);
    if (extension.empty()) FailRecord(key, "holds no image file of a kind that is known");
    const std::string label = datum.has_label ? std::to_string(datum.label) : "";
    StartShardFor(image.size() + label.size() + 4 * kTarBlock);
    Append(StrCat(name, ".", extension), image);
    if (datum.has_label) Append(name + ".cls", label);
  }

  void Close() override {
    CREMA_CHECK(!closed_);
    if (!shard_) StartShard();
    FinishShard();
    closed_ = true;
  }

 private:
  [[noreturn]] void FailRecord(std::string_view key, const std::string& what) const {
    Fail(ErrorCode::kInvalidArgument, StrCat("the record '", PrintableKey(key), "' ", what,
                                             ": it cannot be put into tar shards ('", path_, "')"));
  }

  std::string EncodeRaw(std::string_view key, std::string_view value) {
    DatumReader reader(path_);
    const PixelView pixels = reader.Read(key, value);
    if (pixels.bytes == nullptr || (pixels.channels != 1 && pixels.channels != 3)) {
      FailRecord(key, StrCat("has ", pixels.channels, " channels of ",
                             pixels.bytes == nullptr ? "floats" : "bytes",
                             ", of which no image file can be made"));
    }
    return ToPortableMap(pixels);
  }

  void StartShardFor(uint64_t bytes) {
    if (shard_ && !single_ && written_ + bytes > shard_bytes_) FinishShard();
    if (!shard_) StartShard();
  }

  void StartShard() {
    char name[32];
    std::snprintf(name, sizeof name, "/%06zu.tar", finished_.size());
    shard_path_ = single_ ? path_ : path_ + name;
    shard_.emplace(shard_path_);
    written_ = 0;
  }

  void FinishShard() {
    shard_->Write(TarEnd());
    shard_->Commit();
    shard_.reset();
    finished_.push_back(shard_path_);
  }

  void Append(const std::string& name, std::string_view contents) {
    const std::string header = TarHeader(name, contents.size());
    const std::string padding((kTarBlock - contents.size() % kTarBlock) % kTarBlock, '\0');
    shard_->Write(header);
    shard_->Write(contents);
    shard_->Write(padding);
    written_ += header.size() + contents.size() + padding.size();
  }

  const std::string path_;
  const uint64_t shard_bytes_;
  const bool single_;
  DatumParser parser_;
  std::unordered_set<std::string> names_;
  std::optional<AtomicFile> shard_;
  std::string shard_path_;
  uint64_t written_ = 0;  // bytes in this shard
  std::vector<std::string> finished_;
  bool closed_ = false;
};

}  // namespace

std::unique_ptr<RecordWriter> CreateTarShards(const std::string& path, uint64_t shard_bytes) {
  return std::make_unique<TarWriter>(path, shard_bytes);
}

}  // namespace crema
