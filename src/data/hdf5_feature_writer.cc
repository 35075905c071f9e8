// One dataset that grows by rows. The library is held only during a call, so that several files and
// readers can be at work.
#include <filesystem>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "data/feature_writer.h"
#include "format/file.h"
#include "format/hdf5_file.h"

namespace crema {
namespace {

class Hdf5Features : public FeatureWriter {
 public:
  Hdf5Features(const std::string& path, const std::string& name)
      : path_(path), name_(name), file_(path) {
    const Hdf5Session session;
    Hdf5Id created(H5Fcreate(file_.temporary().c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT),
                   H5Fclose);
    if (!created.ok() || !created.CloseNow()) FailHere();
  }

  void Append(const ConstTensorView& rows) override {
    CREMA_CHECK(rows.shape().axes() > 0);
    if (rows_ == 0) first_ = rows.shape();
    CheckSameRows(first_, rows.shape(), path_);
    if (rows.shape()[0] == 0) return;
    const Hdf5Session session;
    Hdf5Id file(H5Fopen(file_.temporary().c_str(), H5F_ACC_RDWR, H5P_DEFAULT), H5Fclose);
    if (!file.ok()) FailHere();
    if (rows_ == 0) Create(file.get(), rows.shape());
    Write(file.get(), rows);
    rows_ += rows.shape()[0];
    if (!file.CloseNow()) FailHere();
  }

  void Close() override { file_.Commit(); }

 private:
  static std::vector<hsize_t> Extents(const Shape& shape, int64_t rows) {
    std::vector<hsize_t> extents(shape.dims().begin(), shape.dims().end());
    extents[0] = static_cast<hsize_t>(rows);
    return extents;
  }

  void Create(hid_t file, const Shape& shape) {
    const std::vector<hsize_t> none = Extents(shape, 0);
    std::vector<hsize_t> most = none;
    most[0] = H5S_UNLIMITED;
    const std::vector<hsize_t> chunk = Extents(shape, shape[0]);
    const Hdf5Id space(H5Screate_simple(shape.axes(), none.data(), most.data()), H5Sclose);
    const Hdf5Id how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
    H5Pset_chunk(how.get(), shape.axes(), chunk.data());
    Hdf5Id dataset(H5Dcreate2(file, name_.c_str(), H5T_IEEE_F32LE, space.get(), H5P_DEFAULT,
                              how.get(), H5P_DEFAULT),
                   H5Dclose);
    if (!dataset.ok() || !dataset.CloseNow()) FailHere();
  }

  void Write(hid_t file, const ConstTensorView& rows) {
    const Shape& shape = rows.shape();
    Hdf5Id dataset(H5Dopen2(file, name_.c_str(), H5P_DEFAULT), H5Dclose);
    const std::vector<hsize_t> all = Extents(shape, rows_ + shape[0]);
    if (!dataset.ok() || H5Dset_extent(dataset.get(), all.data()) < 0) FailHere();
    const Hdf5Id space(H5Dget_space(dataset.get()), H5Sclose);
    std::vector<hsize_t> start(all.size(), 0);
    start[0] = static_cast<hsize_t>(rows_);
    const std::vector<hsize_t> count = Extents(shape, shape[0]);
    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr);
    const Hdf5Id memory(H5Screate_simple(shape.axes(), count.data(), nullptr), H5Sclose);
    const hid_t type = rows.dtype() == DType::kF64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
    const bool written =
        H5Dwrite(dataset.get(), type, memory.get(), space.get(), H5P_DEFAULT, rows.raw()) >= 0;
    if (!written || !dataset.CloseNow()) FailHere();
  }

  [[noreturn]] void FailHere() const {
    Fail(ErrorCode::kIoFailure, StrCat("cannot write dataset '", name_, "' of ", path_,
                                       "; is the disk full, or the name not a dataset's?"));
  }

  std::string path_;
  std::string name_;
  AtomicFile file_;
  Shape first_;
  int64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<FeatureWriter> NewHdf5FeatureWriter(const std::string& path,
                                                    const std::string& name) {
  return std::make_unique<Hdf5Features>(path, name);
}

}  // namespace crema
