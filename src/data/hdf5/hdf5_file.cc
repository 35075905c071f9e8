#include "data/hdf5/hdf5_file.h"

#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/hdf5_file.h"

namespace crema {
namespace {

// Throws unless `path` is a file that can be opened.
void CheckFile(const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    Fail(ErrorCode::kNotFound, StrCat("there is no file '", path, "'"));
  }
  if (std::filesystem::is_directory(status)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is a folder, not an HDF5 file"));
  }
  if (!std::filesystem::is_regular_file(status)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is a pipe or a device, not an HDF5 file"));
  }
  if (access(path.c_str(), R_OK) != 0) {
    Fail(ErrorCode::kIoFailure, StrCat("'", path, "' cannot be read: ", std::strerror(errno)));
  }
}

hid_t OpenFile(const std::string& path) {
  const hid_t id = H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  if (id < 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' is not an HDF5 file, or it is damaged or open for writing"));
  }
  return id;
}

herr_t CollectName(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

// The functions below require a session.

std::vector<std::string> NamesIn(hid_t file) {
  std::vector<std::string> names;
  H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, CollectName, &names);
  return names;
}

hid_t OpenDataset(hid_t file, const std::string& path, const std::string& name) {
  // Keeps an unpacked chunk cached while its rows are read one by one.
  constexpr size_t kChunkCacheBytes = size_t{32} << 20;
  const Hdf5Id access(H5Pcreate(H5P_DATASET_ACCESS), H5Pclose);
  H5Pset_chunk_cache(access.get(), H5D_CHUNK_CACHE_NSLOTS_DEFAULT, kChunkCacheBytes,
                     H5D_CHUNK_CACHE_W0_DEFAULT);
  const hid_t id = H5Dopen2(file, name.c_str(), access.get());
  if (id >= 0) return id;
  const std::vector<std::string> names = NamesIn(file);
  Fail(ErrorCode::kDataLoss, StrCat("'", path, "' has no dataset '", name, "', it holds ",
                                    names.empty() ? "nothing" : "'" + Join(names, "', '") + "'",
                                    DidYouMean(name, names)));
}

// `what` names dataset and file in errors.
std::vector<int64_t> SizesOf(hid_t dataset, const std::string& what) {
  const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    Fail(ErrorCode::kDataLoss, what + " holds neither floating-point numbers nor integers");
  }
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int axes = H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  if (axes < 1) {
    Fail(ErrorCode::kDataLoss, what + " has no axes; the first must count the samples");
  }
  // A tiny file may claim a dataset of gigabytes. Small datasets without values are harmless.
  constexpr hssize_t kHarmless = 1 << 24;
  if (H5Dget_storage_size(dataset) == 0 && H5Sget_simple_extent_npoints(space.get()) > kHarmless) {
    Fail(ErrorCode::kDataLoss, what + " has a shape but no values");
  }
  for (int axis = 0; axis < axes; ++axis) {
    if (dims[static_cast<size_t>(axis)] <= static_cast<hsize_t>(INT64_MAX)) continue;
    Fail(ErrorCode::kDataLoss, StrCat(what, " says that it has ", dims[static_cast<size_t>(axis)],
                                      " entries along axis ", axis, ": the file is damaged"));
  }
  return {dims.begin(), dims.begin() + axes};
}

Shape ShapeFrom(std::span<const int64_t> dims, const std::string& what) {
  try {
    return Shape(dims);
  } catch (const Error& error) {
    Fail(ErrorCode::kDataLoss, StrCat(what, " is too large: ", error.what()));
  }
}

}  // namespace

struct Hdf5File::Impl {
  std::string path;
  hid_t id = -1;
  ~Impl() {
    const Hdf5Session session;
    if (id >= 0) H5Fclose(id);
  }
};

Hdf5File::Hdf5File(const std::string& path) : impl_(std::make_unique<Impl>()) {
  impl_->path = path;
  CheckFile(path);
  ProbeHdf5(path);
  const Hdf5Session session;
  impl_->id = OpenFile(path);
}

Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;

std::vector<std::string> Hdf5File::Names() const {
  const Hdf5Session session;
  return NamesIn(impl_->id);
}

Shape Hdf5File::ShapeOf(const std::string& dataset) const {
  const Hdf5Dataset set(*this, dataset);
  return ShapeFrom(set.dims(), StrCat("the dataset '", dataset, "' of '", impl_->path, "'"));
}

void Hdf5File::Read(const std::string& dataset, DType dtype, void* out) const {
  const Hdf5Dataset set(*this, dataset);
  set.ReadRows(0, set.rows(), dtype, out);
}

struct Hdf5Dataset::Impl {
  std::string what;  // names dataset and file
  std::vector<int64_t> dims;
  hid_t id = -1;
  ~Impl() {
    const Hdf5Session session;
    if (id >= 0) H5Dclose(id);
  }
};

Hdf5Dataset::Hdf5Dataset(const Hdf5File& file, const std::string& name)
    : impl_(std::make_unique<Impl>()) {
  const std::string& path = file.impl_->path;
  impl_->what = StrCat("the dataset '", name, "' of '", path, "'");
  const Hdf5Session session;
  impl_->id = OpenDataset(file.impl_->id, path, name);
  impl_->dims = SizesOf(impl_->id, impl_->what);
}

Hdf5Dataset::~Hdf5Dataset() = default;
Hdf5Dataset::Hdf5Dataset(Hdf5Dataset&&) noexcept = default;
Hdf5Dataset& Hdf5Dataset::operator=(Hdf5Dataset&&) noexcept = default;

const std::vector<int64_t>& Hdf5Dataset::dims() const { return impl_->dims; }

Shape Hdf5Dataset::RowShape() const {
  return ShapeFrom(std::span(impl_->dims).subspan(1), "a row of " + impl_->what);
}

void Hdf5Dataset::ReadRows(uint64_t first, uint64_t count, DType dtype, void* out) const {
  CREMA_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  CREMA_CHECK(first + count <= rows());
  if (count == 0) return;
  std::vector<hsize_t> start(impl_->dims.size(), 0);
  std::vector<hsize_t> part(impl_->dims.begin(), impl_->dims.end());
  start[0] = first;
  part[0] = count;
  const Hdf5Session session;
  const Hdf5Id file(H5Dget_space(impl_->id), H5Sclose);
  const Hdf5Id memory(H5Screate_simple(static_cast<int>(part.size()), part.data(), nullptr),
                      H5Sclose);
  const hid_t type = dtype == DType::kF32 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  if (H5Sselect_hyperslab(file.get(), H5S_SELECT_SET, start.data(), nullptr, part.data(), nullptr) <
          0 ||
      H5Dread(impl_->id, type, memory.get(), file.get(), H5P_DEFAULT, out) < 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat(impl_->what, " cannot be read: the file is damaged or cut short"));
  }
}

}  // namespace crema
