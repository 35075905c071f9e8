#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/hdf5/hdf5_appender.h"
#include "data/hdf5/hdf5_file.h"
#include "data/records/data_set_folder.h"
#include "data/records/datum.h"
#include "data/records/hdf5_records.h"
#include "format/file.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kFileBytes = uint64_t{1} << 30;
constexpr uint64_t kBlockBytes = uint64_t{1} << 20;  // size of a chunk; rows are written in chunks

// A file that appears when it is complete.
struct NewFile {
  explicit NewFile(const std::string& path)
      : file(path), appender(std::in_place, file.temporary(), path) {}
  void Commit() {
    appender->Close();
    file.Commit();
  }
  AtomicFile file;
  std::optional<Hdf5Appender> appender;  // closed before the file
};

class Hdf5NewRecords final : public RecordWriter {
 public:
  Hdf5NewRecords(std::string path, Hdf5RecordOptions options)
      : path_(std::move(path)), options_(std::move(options)) {
    if (path_.find_first_of(" \t\r\n") != std::string::npos) {
      Fail(ErrorCode::kInvalidArgument, StrCat("'", path_,
                                               "' has a blank, which ends a path in the "
                                               "list that HDF5Data reads: choose another path"));
    }
  }
  ~Hdf5NewRecords() override {
    if (closed_ || !new_) return;
    file_.reset();
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Hdf5NewRecords(const Hdf5NewRecords&) = delete;
  Hdf5NewRecords& operator=(const Hdf5NewRecords&) = delete;

  void Create() {
    MakeDataSetFolder(path_);
    new_ = true;
  }

  // Returns the number of rows in complete files; removes the others.
  uint64_t PrepareToAppend() {
    while (fs::exists(PathOf(files_)) && IsFull(PathOf(files_))) ++files_;
    const std::string next = fs::path(PathOf(files_)).filename().string();
    std::vector<fs::path> rest;
    for (const auto& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      const bool kept = name.ends_with(".h5") && name < next;
      if (!kept && (name.find(".h5") != std::string::npos || name == kHdf5ListName)) {
        rest.push_back(entry.path());
      }
    }
    for (const fs::path& file : rest) fs::remove(file);
    return files_ * rows_per_file_;
  }

  void Put(std::string_view key, std::string_view value) override {
    CREMA_CHECK(!closed_);
    DatumReader reader(path_);
    const PixelView pixels = reader.Read(key, value);
    DatumView view;
    parser_.Parse(value, &view);
    if (!shape_) Begin(pixels.shape(), view.has_label);
    CheckRecord(key, pixels.shape(), view);
    if (!file_) file_.emplace(PathOf(files_));
    const auto count = static_cast<size_t>(pixels.shape().count());
    if (pixels.bytes != nullptr) {
      values_.insert(values_.end(), pixels.bytes, pixels.bytes + count);
    } else {
      values_.insert(values_.end(), pixels.floats, pixels.floats + count);
    }
    if (view.has_label) labels_.push_back(static_cast<float>(view.label));
    ++waiting_;
    ++in_file_;
    if (waiting_ == block_rows_ || in_file_ == rows_per_file_) Flush();
    if (in_file_ == rows_per_file_) FinishFile();
  }

  void Close() override {
    CREMA_CHECK(!closed_);
    if (in_file_ > 0) FinishFile();
    std::string list;
    for (uint64_t i = 0; i < files_; ++i) list += PathOf(i) + "\n";
    WriteFileAtomically(path_ + "/" + kHdf5ListName, list);
    closed_ = true;
  }

 private:
  std::string PathOf(uint64_t file) const {
    return StrCat(path_, "/", RowKey(file).substr(2), ".h5");
  }

  void Begin(const Shape& shape, bool labelled) {
    shape_ = shape;
    labelled_ = labelled;
    const auto row_bytes =
        std::max<uint64_t>(static_cast<uint64_t>(shape.count()) * sizeof(float), 1);
    rows_per_file_ = options_.rows_per_file;
    if (rows_per_file_ == 0) rows_per_file_ = std::max<uint64_t>(kFileBytes / row_bytes, 1);
    block_rows_ = std::max<uint64_t>(kBlockBytes / row_bytes, 1);
  }

  bool IsFull(const std::string& path) {
    const Hdf5File file(path);
    const Hdf5Dataset data(file, options_.data);
    const std::vector<std::string> names = file.Names();
    if (!shape_) Begin(data.RowShape(), std::ranges::find(names, options_.label) != names.end());
    return data.rows() == rows_per_file_;
  }

  void CheckRecord(std::string_view key, const Shape& shape, const DatumView& view) const {
    const auto refuse = [&](const std::string& what) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("the record '", PrintableKey(key), "' ", what, " ('", path_, "')"));
    };
    if (shape != *shape_) {
      refuse(StrCat("is ", ToString(shape), ", but those before are ", ToString(*shape_),
                    ": rows of HDF5 have one shape; resize the images"));
    }
    if (view.has_label != labelled_) {
      refuse(view.has_label ? "has a label, but those before have none"
                            : "has no label, but those before have one");
    }
    constexpr int kMostExact = 1 << 24;
    if (std::abs(int64_t{view.label}) > kMostExact) {
      refuse(StrCat("has the label ", view.label, ", which no float can hold"));
    }
  }

  void Flush() {
    if (waiting_ == 0) return;
    std::vector<int64_t> dims{static_cast<int64_t>(waiting_)};
    dims.insert(dims.end(), shape_->dims().begin(), shape_->dims().end());
    file_->appender->Append(options_.data, {values_.data(), Shape(dims), DType::kF32});
    if (labelled_) {
      file_->appender->Append(options_.label,
                              {labels_.data(), Shape{static_cast<int64_t>(waiting_)}, DType::kF32});
    }
    values_.clear();
    labels_.clear();
    waiting_ = 0;
  }

  void FinishFile() {
    Flush();
    file_->Commit();
    file_.reset();
    ++files_;
    in_file_ = 0;
  }

  const std::string path_;
  const Hdf5RecordOptions options_;
  bool new_ = false;
  bool closed_ = false;
  DatumParser parser_;
  std::optional<Shape> shape_;  // shape of a row
  bool labelled_ = false;
  uint64_t rows_per_file_ = 0;
  uint64_t block_rows_ = 0;
  uint64_t files_ = 0;  // number of files
  std::optional<NewFile> file_;
  uint64_t in_file_ = 0;  // rows of the last file
  uint64_t waiting_ = 0;  // rows of the last file not written yet
  std::vector<float> values_;
  std::vector<float> labels_;
};

}  // namespace

std::unique_ptr<RecordWriter> CreateHdf5Records(const std::string& path,
                                                const Hdf5RecordOptions& options) {
  auto writer = std::make_unique<Hdf5NewRecords>(path, options);
  writer->Create();
  return writer;
}

RecordAppender AppendHdf5Records(const std::string& path, const Hdf5RecordOptions& options) {
  auto writer = std::make_unique<Hdf5NewRecords>(path, options);
  uint64_t rows = 0;
  try {
    rows = writer->PrepareToAppend();
  } catch (const fs::filesystem_error& failure) {
    Fail(ErrorCode::kIoFailure, StrCat("cannot continue '", path, "': ", failure.what()));
  }
  RecordAppender appender;
  appender.writer = std::move(writer);
  if (rows > 0) appender.last_key = RowKey(rows - 1);
  return appender;
}

}  // namespace crema
