#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/hdf5/hdf5_file.h"
#include "data/hdf5/hdf5_rows.h"
#include "data/records/hdf5_records.h"
#include "format/file.h"

namespace crema {
namespace {

std::string ListOf(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_directory(path, ignored) ? path + "/" + kHdf5ListName : path;
}

Hdf5Set OpenSet(const std::string& path, const Hdf5RecordOptions& options) {
  const std::string list = ListOf(path);
  const bool single = ReadFileStart(list, 4) == "\x89HDF";
  const std::vector<std::string> files = single ? std::vector{list} : ReadHdf5List(list);
  std::vector<std::string> datasets{options.data};
  const std::vector<std::string> names = Hdf5File(files[0]).Names();
  if (std::ranges::find(names, options.label) != names.end()) datasets.push_back(options.label);
  return {list, files, std::move(datasets)};
}

class Hdf5Records final : public RecordReader {
 public:
  Hdf5Records(const std::string& path, const Hdf5RecordOptions& options)
      : path_(path),
        options_(options),
        rows_(OpenSet(path, options), {.dtype = DType::kF64}),
        labelled_(rows_.set().datasets().size() > 1) {
    const Shape& row = rows_.set().row_shapes()[0];
    if (row.axes() > 3) {
      Fail(ErrorCode::kUnsupported, StrCat("rows of '", options.data, "' in '", path, "' are ",
                                           ToString(row), "; a Datum has three axes"));
    }
    if (labelled_ && rows_.set().row_shapes()[1].count() != 1) {
      Fail(ErrorCode::kUnsupported,
           StrCat("rows of '", options.label, "' in '", path, "' are ",
                  ToString(rows_.set().row_shapes()[1]), "; a Datum has one label"));
    }
    const auto dim = [&](int axis) { return row.axes() > axis ? row[axis] : 1; };
    datum_.set_channels(static_cast<int>(dim(0)));
    datum_.set_height(static_cast<int>(dim(1)));
    datum_.set_width(static_cast<int>(dim(2)));
    values_.resize(static_cast<size_t>(row.count()));
  }

  uint64_t count() const override { return rows_.set().rows(); }
  bool labelled() const override { return labelled_; }
  void Seek(uint64_t ordinal) override { next_ = ordinal % count(); }
  void Skip(uint64_t records) override { Seek(next_ + records % count()); }

  KeyedRecord Next() override {
    const uint64_t row = next_;
    Skip(1);
    return At(row);
  }

  KeyedRecord At(uint64_t row) override {
    double label = 0;
    std::vector<std::byte*> places{reinterpret_cast<std::byte*>(values_.data())};
    if (labelled_) places.push_back(reinterpret_cast<std::byte*>(&label));
    rows_.Read(row, places);
    if (labelled_) datum_.set_label(WholeLabel(row, label));
    if (options_.bytes) {
      PutBytes(row);
    } else {
      datum_.mutable_float_data()->Assign(values_.begin(), values_.end());
    }
    datum_.SerializeToString(&value_);
    key_ = RowKey(row);
    return {key_, value_};
  }

  std::unique_ptr<RecordReader> Clone() const override {
    return std::make_unique<Hdf5Records>(path_, options_);
  }

 private:
  int WholeLabel(uint64_t row, double label) const {
    using Limits = std::numeric_limits<int>;
    if (label >= Limits::min() && label <= Limits::max() && label == std::floor(label)) {
      return static_cast<int>(label);
    }
    Fail(ErrorCode::kDataLoss, StrCat(rows_.set().Name(row), ": the label ", label,
                                      " is no whole number, as that of a Datum must be"));
  }

  void PutBytes(uint64_t row) {
    std::string* bytes = datum_.mutable_data();
    bytes->clear();
    for (const double value : values_) {
      if (!(value >= 0 && value <= 255 && value == std::floor(value))) {
        Fail(ErrorCode::kDataLoss, StrCat(rows_.set().Name(row), ": the value ", value,
                                          " is no byte (0 to 255): store floats"));
      }
      *bytes += static_cast<char>(static_cast<uint8_t>(value));
    }
  }

  const std::string path_;
  const Hdf5RecordOptions options_;
  Hdf5RowReader rows_;
  const bool labelled_;
  uint64_t next_ = 0;
  Datum datum_;
  std::vector<double> values_;
  std::string key_;  // of the last record
  std::string value_;
};

}  // namespace

std::unique_ptr<RecordReader> OpenHdf5Records(const std::string& path,
                                              const Hdf5RecordOptions& options) {
  return std::make_unique<Hdf5Records>(path, options);
}

}  // namespace crema
