#include "data/hdf5_file.h"

#include <hdf5.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "format/hdf5_probe.h"

namespace crema {
namespace {

// HDF5 prints its errors on stderr unless told not to; ours say more.
class Quiet {
 public:
  Quiet() {
    H5Eget_auto2(H5E_DEFAULT, &function_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Quiet() { H5Eset_auto2(H5E_DEFAULT, function_, data_); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
};

class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  hid_t get() const { return id_; }
  bool valid() const { return id_ >= 0; }

 private:
  const hid_t id_;
  herr_t (*const close_)(hid_t);
};

hid_t OpenFile(const std::string& path) {
  std::error_code failure;
  const auto status = std::filesystem::status(path, failure);
  if (!std::filesystem::exists(status)) {
    Fail(ErrorCode::kNotFound, StrCat("there is no file '", path, "'"));
  }
  if (std::filesystem::is_directory(status)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is a folder, not an HDF5 file"));
  }
  if (access(path.c_str(), R_OK) != 0) {
    Fail(ErrorCode::kIoFailure, StrCat("'", path, "' cannot be read: ", std::strerror(errno)));
  }
  const Quiet quiet;
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

hid_t OpenProbed(const std::string& path) {
  ProbeHdf5(path);
  return OpenFile(path);
}

}  // namespace

struct Hdf5File::Impl {
  explicit Impl(const std::string& file) : path(file), id(OpenProbed(file), H5Fclose) {}
  const std::string path;
  const Handle id;
};

Hdf5File::Hdf5File(const std::string& path) : impl_(std::make_unique<Impl>(path)) {}
Hdf5File::~Hdf5File() = default;
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;
Hdf5File& Hdf5File::operator=(Hdf5File&&) noexcept = default;

std::vector<std::string> Hdf5File::Names() const {
  const Quiet quiet;
  std::vector<std::string> names;
  H5Literate(impl_->id.get(), H5_INDEX_NAME, H5_ITER_INC, nullptr, CollectName, &names);
  return names;
}

Shape Hdf5File::ShapeOf(const std::string& dataset) const {
  const Quiet quiet;
  const Handle set(H5Dopen2(impl_->id.get(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  if (!set.valid()) {
    const std::vector<std::string> names = Names();
    Fail(ErrorCode::kDataLoss,
         StrCat("'", impl_->path, "' has no dataset '", dataset, "', it holds ",
                names.empty() ? "nothing" : "'" + Join(names, "', '") + "'",
                DidYouMean(dataset, names)));
  }
  const Handle type(H5Dget_type(set.get()), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    Fail(ErrorCode::kDataLoss, StrCat("the dataset '", dataset, "' of '", impl_->path,
                                      "' holds neither floating-point numbers nor integers"));
  }
  const Handle space(H5Dget_space(set.get()), H5Sclose);
  std::array<hsize_t, H5S_MAX_RANK> extents{};
  const int axes = H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr);
  if (axes < 1) {
    Fail(ErrorCode::kDataLoss, StrCat("the dataset '", dataset, "' of '", impl_->path,
                                      "' has no axes; the first must count the samples"));
  }
  // A file of a kilobyte may claim a dataset of gigabytes; a small one without values is harmless.
  constexpr hssize_t kHarmless = 1 << 24;
  if (H5Dget_storage_size(set.get()) == 0 &&
      H5Sget_simple_extent_npoints(space.get()) > kHarmless) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the dataset '", dataset, "' of '", impl_->path, "' has a shape but no values"));
  }
  try {
    const std::vector<int64_t> dims(extents.begin(), extents.begin() + axes);
    return Shape(dims);
  } catch (const Error& error) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the dataset '", dataset, "' of '", impl_->path, "' is too large: ", error.what()));
  }
}

void Hdf5File::Read(const std::string& dataset, DType dtype, void* out) const {
  CREMA_CHECK(dtype == DType::kF32 || dtype == DType::kF64);
  const Quiet quiet;
  const Handle set(H5Dopen2(impl_->id.get(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  const hid_t type = dtype == DType::kF32 ? H5T_NATIVE_FLOAT : H5T_NATIVE_DOUBLE;
  if (!set.valid() || H5Dread(set.get(), type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) < 0) {
    Fail(ErrorCode::kDataLoss, StrCat("the dataset '", dataset, "' of '", impl_->path,
                                      "' cannot be read: the file is damaged or cut short"));
  }
}

}  // namespace crema
