#include "data/features/feature_writer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "core/blob_types.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/record_db.h"

namespace crema {
namespace {

class RecordFeatures : public FeatureWriter {
 public:
  RecordFeatures(const std::string& path, DataParameter::DB backend)
      : path_(path), writer_(CreateRecords(path, backend)) {}

  void Append(const ConstTensorView& rows) override {
    const Shape& shape = rows.shape();
    if (count_ == 0) first_ = shape;
    CheckSameRows(first_, shape, path_);
    Datum datum;
    const auto dim = [&](int axis) {
      return static_cast<int>(shape.axes() > axis ? shape[axis] : 1);
    };
    // A Datum has three axes; further axes are merged into the last.
    datum.set_channels(dim(1));
    datum.set_height(dim(2));
    datum.set_width(static_cast<int>(shape.axes() > 3 ? shape.count(3) : 1));
    const auto size = static_cast<size_t>(shape.axes() > 1 ? shape.count(1) : 1);
    const int64_t items = shape.axes() > 0 ? shape[0] : 1;
    DispatchBlob(rows.dtype(), [&]<typename T>(T) {
      for (int64_t i = 0; i < items; ++i) {
        const auto row = rows.span<T>().subspan(static_cast<size_t>(i) * size, size);
        datum.mutable_float_data()->Assign(row.begin(), row.end());
        char key[16];
        std::snprintf(key, sizeof(key), "%010ld", static_cast<long>(count_++));
        writer_->Put(key, datum.SerializeAsString());
      }
    });
  }

  void Close() override { writer_->Close(); }

 private:
  std::string path_;
  std::unique_ptr<RecordWriter> writer_;
  Shape first_;
  int64_t count_ = 0;
};

}  // namespace

void CheckSameRows(const Shape& first, const Shape& shape, const std::string& path) {
  const bool same =
      first.axes() == shape.axes() &&
      (first.axes() == 0 || std::ranges::equal(first.dims().subspan(1), shape.dims().subspan(1)));
  if (same) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("samples of one file have one shape, but '", path, "' got ", ToString(first),
              " first and then ", ToString(shape)));
}

std::unique_ptr<FeatureWriter> NewRecordFeatureWriter(const std::string& path,
                                                      DataParameter::DB backend) {
  return std::make_unique<RecordFeatures>(path, backend);
}

#ifndef CREMA_HAVE_HDF5
std::unique_ptr<FeatureWriter> NewHdf5FeatureWriter(const std::string& path, const std::string&) {
  Fail(ErrorCode::kUnsupported, StrCat("this build has no HDF5, so it cannot write ", path));
}
#endif

std::unique_ptr<FeatureWriter> NewFeatureWriter(const std::string& path, const std::string& name) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".npy") return NewNpyWriter(path);
  if (extension == ".h5" || extension == ".hdf5") return NewHdf5FeatureWriter(path, name);
  if (!extension.empty() && extension != ".lmdb" && extension != ".mdb") {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("features are written as .npy, .h5, or an LMDB (no extension, or .lmdb); '", path,
                "' is none of them"));
  }
  return NewRecordFeatureWriter(path, DataParameter::LMDB);
}

}  // namespace crema
