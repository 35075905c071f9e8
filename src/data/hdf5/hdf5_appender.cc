#include "data/hdf5/hdf5_appender.h"

#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"
#include "format/hdf5_file.h"

namespace crema {
namespace {

struct Dataset {
  Hdf5Id id;
  Shape row;
  hsize_t rows = 0;
};

Shape RowOf(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

hid_t TypeOf(DType dtype) {
  if (dtype == DType::kU8) return H5T_NATIVE_UCHAR;
  CREMA_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  return dtype == DType::kF32 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
}

// Stores bytes as floats, which HDF5Data reads; HDF5 converts them.
hid_t StoredTypeOf(DType dtype) { return TypeOf(dtype == DType::kU8 ? DType::kF32 : dtype); }

std::vector<hsize_t> Sizes(hsize_t first, const Shape& row) {
  std::vector<hsize_t> dims{first};
  dims.insert(dims.end(), row.dims().begin(), row.dims().end());
  return dims;
}

}  // namespace

struct Hdf5Appender::Impl {
  Impl(const std::string& file_path, hid_t id) : path(file_path), file(id, H5Fclose) {}

  [[noreturn]] void FailWriting() const { FailWrite(path, errno == 0 ? EIO : errno, 0); }

  Dataset& Make(const std::string& name, const ConstTensorView& rows) {
    const Shape row = RowOf(rows.shape());
    std::vector<hsize_t> dims = Sizes(0, row);
    std::vector<hsize_t> most = dims;
    most[0] = H5S_UNLIMITED;
    const Hdf5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), most.data()),
                       H5Sclose);
    // One batch per chunk. HDF5 requires non-empty chunks below 4 GiB.
    constexpr hsize_t kMostBytes = hsize_t{1} << 30;
    const hsize_t row_bytes = std::max<hsize_t>(
        1, static_cast<hsize_t>(row.count()) * H5Tget_size(StoredTypeOf(rows.dtype())));
    std::vector<hsize_t> chunk = Sizes(static_cast<hsize_t>(rows.shape()[0]), row);
    for (hsize_t& dim : chunk) dim = std::max<hsize_t>(1, dim);
    chunk[0] = std::clamp<hsize_t>(kMostBytes / row_bytes, 1, chunk[0]);
    const Hdf5Id properties = PropertiesWithoutTimes(H5P_DATASET_CREATE);
    H5Pset_chunk(properties.get(), static_cast<int>(chunk.size()), chunk.data());
    Hdf5Id id(H5Dcreate2(file.get(), name.c_str(), StoredTypeOf(rows.dtype()), space.get(),
                         H5P_DEFAULT, properties.get(), H5P_DEFAULT),
              H5Dclose);
    if (!id.ok()) FailWriting();
    return datasets.emplace(name, Dataset{std::move(id), row}).first->second;
  }

  void Write(Dataset& set, const ConstTensorView& rows) {
    const auto count = static_cast<hsize_t>(rows.shape()[0]);
    std::vector<hsize_t> dims = Sizes(set.rows + count, set.row);
    if (H5Dset_extent(set.id.get(), dims.data()) < 0) FailWriting();
    if (rows.count() > 0) {
      std::vector<hsize_t> start(dims.size(), 0);
      start[0] = set.rows;
      dims[0] = count;
      const Hdf5Id all(H5Dget_space(set.id.get()), H5Sclose);
      const Hdf5Id memory(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                          H5Sclose);
      const bool written = H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, start.data(), nullptr,
                                               dims.data(), nullptr) >= 0 &&
                           H5Dwrite(set.id.get(), TypeOf(rows.dtype()), memory.get(), all.get(),
                                    H5P_DEFAULT, rows.raw()) >= 0;
      if (!written) FailWriting();
    }
    set.rows += count;
  }

  const std::string path;
  Hdf5Id file;
  std::map<std::string, Dataset> datasets;  // closed before the file
};

Hdf5Appender::Hdf5Appender(const std::string& path, const std::string& name) {
  const Hdf5Session session;
  errno = 0;
  const hid_t id = H5Fcreate(path.c_str(), H5F_ACC_TRUNC,
                             PropertiesWithoutTimes(H5P_FILE_CREATE).get(), H5P_DEFAULT);
  // HDF5 often overwrites errno while it cleans up after a failure.
  if (id < 0) FailWrite(name.empty() ? path : name, errno == 0 ? EIO : errno, 0);
  impl_ = std::make_unique<Impl>(name.empty() ? path : name, id);
}

Hdf5Appender::~Hdf5Appender() {
  const Hdf5Session session;
  impl_.reset();
}

void Hdf5Appender::Append(const std::string& dataset, const ConstTensorView& rows) {
  CREMA_CHECK(rows.shape().axes() > 0);
  const Hdf5Session session;
  errno = 0;
  const auto found = impl_->datasets.find(dataset);
  Dataset& set = found == impl_->datasets.end() ? impl_->Make(dataset, rows) : found->second;
  if (RowOf(rows.shape()) != set.row) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("a row of '", dataset, "' is ", ToString(RowOf(rows.shape())), ", but in '",
                impl_->path, "' it is ", ToString(set.row), " from before"));
  }
  impl_->Write(set, rows);
}

void Hdf5Appender::Flush() {
  const Hdf5Session session;
  errno = 0;
  if (H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL) < 0) impl_->FailWriting();
}

void Hdf5Appender::Close() {
  const Hdf5Session session;
  errno = 0;
  bool closed = true;
  for (auto& [name, set] : impl_->datasets) closed = set.id.CloseNow() && closed;
  // A flush reports errors; a close without one may not.
  closed = closed && H5Fflush(impl_->file.get(), H5F_SCOPE_GLOBAL) >= 0;
  if (!impl_->file.CloseNow() || !closed) impl_->FailWriting();
}

}  // namespace crema
