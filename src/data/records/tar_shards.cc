#include "data/records/tar_shards.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstring>
#include <deque>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/data_set_folder.h"
#include "data/records/tar_archive.h"
#include "format/data_file.h"

namespace crema {
namespace {

struct ShardFile {
  std::string path;
  struct stat status;  // at the time of indexing
};

struct Sample {
  uint64_t key_end = 0;  // end in TarIndex::keys
  uint64_t offset = 0;   // of the image
  uint32_t size = 0;     // of the image, bytes
  uint32_t shard = 0;
  int32_t label = 0;
  bool bad_label = false;
};

// Index of a data set, immutable once built.
struct TarIndex {
  std::vector<ShardFile> shards;
  std::vector<Sample> samples;
  std::string keys;  // concatenated
  bool labels = false;

  std::string_view Key(uint64_t ordinal) const {
    const uint64_t begin = ordinal == 0 ? 0 : samples[ordinal - 1].key_end;
    return std::string_view(keys).substr(begin, samples[ordinal].key_end - begin);
  }
};

std::vector<std::string> FindShards(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (!fs::exists(path, error) && path.find('{') != std::string::npos) return ExpandBraces(path);
  if (!S_ISDIR(ExamineDataSet(path).st_mode)) return {path};
  std::vector<std::string> shards;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end;
       Advance(entry, error)) {
    if (entry->path().extension() == ".tar") shards.push_back(entry->path().string());
  }
  if (error) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the folder '", path, "' cannot be read: ", error.message()));
  }
  std::ranges::sort(shards);
  return shards;
}

// Builds the index of a data set, member by member.
class Indexer {
 public:
  explicit Indexer(TarIndex* index) : index_(index) {}

  void Add(const std::string& path) {
    struct stat status = ExamineDataSet(path);
    const auto file = OpenDataFile(path);
    index_->shards.push_back({path, status});
    VisitTar(*file, [&](const TarMember& member) { Take(member); });
    Finish();
  }

 private:
  [[noreturn]] void FailAt(uint64_t offset, const std::string& what) const {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", index_->shards.back().path, "', byte ", offset, ": ", what));
  }

  void Take(const TarMember& member) {
    const TarName name = SplitTarName(member.name);
    if (name.sample.empty()) return;
    if (name.sample != name_) {
      Finish();
      name_ = name.sample;
    }
    if (name.extension == "cls") {
      label_offset_ = member.header;
      // A longer text is not a number.
      const std::string_view text = Trim(member.start);
      const auto [end, error] =
          std::from_chars(text.data(), text.data() + text.size(), sample_.label);
      sample_.bad_label = error != std::errc() || end != text.data() + text.size() ||
                          member.size != member.start.size();
    } else if (IsImageExtension(name.extension)) {
      TakeImage(member);
    }
  }

  void TakeImage(const TarMember& member) {
    if (has_image_) {
      FailAt(member.header, StrCat("the sample '", name_,
                                   "' has two images: names of samples must differ before the "
                                   "first dot"));
    }
    constexpr uint64_t kMostBytes = uint64_t{1} << 30;
    if (member.size > kMostBytes) {
      FailAt(member.header, StrCat("'", member.name, "' has ", member.size, " bytes: too many"));
    }
    has_image_ = true;
    sample_.offset = member.offset;
    sample_.size = static_cast<uint32_t>(member.size);
    image_header_ = member.header;
  }

  // Ends the group of the current sample.
  void Finish() {
    if (has_image_) {
      if (!index_->samples.empty() && index_->labels != label_offset_.has_value()) {
        FailAt(image_header_, StrCat("the sample '", name_, "' has ",
                                     label_offset_ ? "a label (.cls), but those before have none"
                                                   : "no label (.cls), but those before have one"));
      }
      index_->labels = label_offset_.has_value();
      index_->keys += name_;
      sample_.key_end = index_->keys.size();
      sample_.shard = static_cast<uint32_t>(index_->shards.size() - 1);
      index_->samples.push_back(sample_);
    } else if (label_offset_) {
      FailAt(*label_offset_, StrCat("the sample '", name_, "' has a label and no image"));
    }
    name_.clear();
    sample_ = {};
    has_image_ = false;
    label_offset_.reset();
  }

  TarIndex* const index_;
  std::string name_;  // current sample
  Sample sample_;
  bool has_image_ = false;
  uint64_t image_header_ = 0;
  std::optional<uint64_t> label_offset_;
};

// Keeps a bounded number of shards open.
class ShardFiles {
 public:
  explicit ShardFiles(const std::vector<ShardFile>& shards)
      : shards_(shards), descriptors_(shards.size(), -1) {}
  ~ShardFiles() {
    for (const uint32_t shard : open_) ::close(descriptors_[shard]);
  }
  ShardFiles(const ShardFiles&) = delete;
  ShardFiles& operator=(const ShardFiles&) = delete;

  void Read(uint32_t shard, uint64_t offset, char* out, size_t size) {
    const int file = Open(shard);
    CheckUnchanged(shard, file);
    while (size > 0) {
      const ssize_t count = ::pread(file, out, size, static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) FailRead(shard, errno);
      if (count == 0) FailChanged(shard);
      out += count;
      offset += static_cast<uint64_t>(count);
      size -= static_cast<size_t>(count);
    }
  }

 private:
  [[noreturn]] void FailRead(uint32_t shard, int error) const {
    Fail(ErrorCode::kIoFailure,
         StrCat("'", shards_[shard].path, "' cannot be read: ", std::strerror(error)));
  }

  [[noreturn]] void FailChanged(uint32_t shard) const {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", shards_[shard].path,
                "' was changed since it was opened: start again when no program writes to it"));
  }

  int Open(uint32_t shard) {
    if (descriptors_[shard] >= 0) return descriptors_[shard];
    constexpr size_t kMostOpen = 64;
    if (open_.size() == kMostOpen) {
      ::close(std::exchange(descriptors_[open_.front()], -1));
      open_.pop_front();
    }
    const int file = ::open(shards_[shard].path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) FailRead(shard, errno);
    descriptors_[shard] = file;
    open_.push_back(shard);
    return file;
  }

  void CheckUnchanged(uint32_t shard, int file) const {
    const struct stat& then = shards_[shard].status;
    struct stat now {};
    if (::fstat(file, &now) != 0) FailRead(shard, errno);
    if (now.st_ino != then.st_ino || now.st_dev != then.st_dev || now.st_size != then.st_size ||
        now.st_mtim.tv_sec != then.st_mtim.tv_sec || now.st_mtim.tv_nsec != then.st_mtim.tv_nsec) {
      FailChanged(shard);
    }
  }

  const std::vector<ShardFile>& shards_;
  std::vector<int> descriptors_;
  std::deque<uint32_t> open_;
};

class TarReader final : public RecordReader {
 public:
  explicit TarReader(std::shared_ptr<const TarIndex> index)
      : index_(std::move(index)), files_(index_->shards) {}

  uint64_t count() const override { return index_->samples.size(); }

  bool labelled() const override { return index_->labels; }
  bool annotated() const override { return false; }

  KeyedRecord Next() override {
    const uint64_t ordinal = next_;
    Skip(1);  // also after an error
    return At(ordinal);
  }

  void Seek(uint64_t ordinal) override { next_ = ordinal % count(); }
  void Skip(uint64_t records) override { next_ = (next_ + records % count()) % count(); }

  KeyedRecord At(uint64_t ordinal) override {
    CREMA_CHECK(ordinal < count());
    const Sample& sample = index_->samples[ordinal];
    if (sample.bad_label) {
      Fail(ErrorCode::kDataLoss,
           StrCat("the label (.cls) of '", index_->Key(ordinal), "' in '",
                  index_->shards[sample.shard].path, "' is not a whole number"));
    }
    WriteHead(sample);
    const size_t head = value_.size();
    value_.resize(head + sample.size);
    files_.Read(sample.shard, sample.offset, value_.data() + head, sample.size);
    return {index_->Key(ordinal), value_};
  }

  std::unique_ptr<RecordReader> Clone() const override {
    return std::make_unique<TarReader>(index_);
  }

 private:
  // Writes a Datum up to the bytes of its image.
  void WriteHead(const Sample& sample) {
    using google::protobuf::io::CodedOutputStream;
    constexpr uint8_t kVarint = 0;
    constexpr uint8_t kBytes = 2;
    uint8_t head[32];
    uint8_t* at = head;
    *at++ = Datum::kEncodedFieldNumber << 3 | kVarint;
    *at++ = 1;
    if (index_->labels) {
      *at++ = Datum::kLabelFieldNumber << 3 | kVarint;
      at = CodedOutputStream::WriteVarint32SignExtendedToArray(sample.label, at);
    }
    *at++ = Datum::kDataFieldNumber << 3 | kBytes;
    at = CodedOutputStream::WriteVarint32ToArray(sample.size, at);
    value_.assign(reinterpret_cast<const char*>(head), static_cast<size_t>(at - head));
  }

  const std::shared_ptr<const TarIndex> index_;
  ShardFiles files_;
  uint64_t next_ = 0;
  std::string value_;  // of the last record
};

}  // namespace

std::unique_ptr<RecordReader> OpenTarShards(const std::string& path) {
  auto index = std::make_shared<TarIndex>();
  Indexer indexer(index.get());
  for (const std::string& shard : FindShards(path)) indexer.Add(shard);
  if (index->samples.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("the data set '", path,
                                      "' holds no samples: files in tar shards must be named "
                                      "NAME.jpg (or .png and the like) and NAME.cls"));
  }
  return std::make_unique<TarReader>(std::move(index));
}

}  // namespace crema
