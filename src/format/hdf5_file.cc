#include "format/hdf5_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>

#include "core/strings.h"
#include "crema.pb.h"
#include "format/blob_proto.h"
#include "format/file.h"

namespace crema {
namespace {

// Global, since HDF5's tables are global.
std::mutex& Hdf5Mutex() {
  static std::mutex mutex;
  return mutex;
}

uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

bool IsNumber(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Orders "2" before "10", and numbers before words.
bool NameLess(const std::string& a, const std::string& b) {
  if (IsNumber(a) != IsNumber(b)) return IsNumber(a);
  if (IsNumber(a) && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

herr_t AddName(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->push_back(name);
  return 0;
}

std::string_view ViewOf(const void* values, size_t bytes) {
  return {static_cast<const char*>(values), bytes};
}

std::string_view UpToZero(std::string_view text) { return text.substr(0, text.find('\0')); }

uint64_t ProbedBytes(const std::string& path) {
  ReadFileStart(path, 1);  // throws with the reason if the file cannot be read
  const uint64_t bytes = FileBytes(path);
  ProbeHdf5(path);
  return bytes;
}

}  // namespace

Hdf5Id PropertiesWithoutTimes(hid_t list_class) {
  Hdf5Id list(H5Pcreate(list_class), H5Pclose);
  H5Pset_obj_track_times(list.get(), false);
  return list;
}

Hdf5Session::Hdf5Session() {
  Hdf5Mutex().lock();
  // A file that could not be closed because of a full disk stays open; HDF5's exit handler would
  // crash on it. H5dont_atexit must precede any other call.
  H5dont_atexit();
  H5Eget_auto2(H5E_DEFAULT, &report_, &report_data_);
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

Hdf5Session::~Hdf5Session() {
  H5Eset_auto2(H5E_DEFAULT, report_, report_data_);
  Hdf5Mutex().unlock();
}

Hdf5Reader::Hdf5Reader(const std::string& path)
    : path_(path),
      file_bytes_(ProbedBytes(path)),
      file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose) {
  if (!file_.ok()) FailDamaged("it cannot be opened as HDF5");
  if (!HasHdf5Sum(file_.get())) return;  // written by Caffe
  expected_sum_ = ReadHdf5Sum(file_.get());
  if (!expected_sum_) FailDamaged("its checksum cannot be read");
}

void Hdf5Reader::FailDamaged(const std::string& what) const {
  Fail(ErrorCode::kDataLoss, "is damaged or truncated: " + what + "; take another copy",
       {.file = path_});
}

bool Hdf5Reader::Has(const std::string& name) const {
  return H5Lexists(file_.get(), name.c_str(), H5P_DEFAULT) > 0;
}

bool Hdf5Reader::IsGroup(const std::string& name) const {
  const Hdf5Id object(H5Oopen(file_.get(), name.c_str(), H5P_DEFAULT), H5Oclose);
  return object.ok() && H5Iget_type(object.get()) == H5I_GROUP;
}

std::vector<std::string> Hdf5Reader::Names(const std::string& group) const {
  const Hdf5Id opened(H5Gopen2(file_.get(), group.c_str(), H5P_DEFAULT), H5Gclose);
  std::vector<std::string> names;
  if (!opened.ok() ||
      H5Literate(opened.get(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, AddName, &names) < 0) {
    FailDamaged("the group '" + group + "' cannot be read");
  }
  std::sort(names.begin(), names.end(), NameLess);
  return names;
}

Hdf5Id Hdf5Reader::Open(const std::string& dataset) const {
  Hdf5Id opened(H5Dopen2(file_.get(), dataset.c_str(), H5P_DEFAULT), H5Dclose);
  if (!opened.ok()) FailDamaged("the data set '" + dataset + "' cannot be read");
  return opened;
}

std::vector<int64_t> Hdf5Reader::Dims(hid_t dataset, const std::string& name) const {
  const Hdf5Id space(H5Dget_space(dataset), H5Sclose);
  const Hdf5Id type(H5Dget_type(dataset), H5Tclose);
  const int axes = space.ok() ? H5Sget_simple_extent_ndims(space.get()) : -1;
  if (axes < 0 || !type.ok()) FailDamaged("the data set '" + name + "' has no shape");
  std::vector<hsize_t> dims(static_cast<size_t>(axes));
  H5Sget_simple_extent_dims(space.get(), dims.data(), nullptr);
  const std::vector<int64_t> result(dims.begin(), dims.end());
  int64_t count = 0;
  try {
    count = Shape(result).count();
  } catch (const Error&) {
    FailDamaged("the data set '" + name + "' has an impossible shape");
  }
  // Upper bound of HDF5's compression; keeps a forged shape from exhausting memory.
  constexpr uint64_t kMostCompression = 1100;
  const uint64_t bytes = static_cast<uint64_t>(count) * H5Tget_size(type.get());
  if (bytes > 0 && (H5Dget_storage_size(dataset) == 0 || bytes / kMostCompression > file_bytes_)) {
    FailDamaged("the data set '" + name + "' has a shape but no values");
  }
  return result;
}

void Hdf5Reader::ReadRest(const std::string& group, int depth) const {
  constexpr int kMostDepth = 3;  // data/<layer>/<i>; damage can make a group its own child
  for (const std::string& name : Names(group)) {
    const std::string path = group == "/" ? name : StrCat(group, "/", name);
    if (sum_.Has(path)) continue;
    if (!IsGroup(path)) {
      ReadArray(path);
      continue;
    }
    if (depth >= kMostDepth) FailDamaged("the group '" + path + "' should not be there");
    sum_.AddGroup(path);
    ReadRest(path, depth + 1);
  }
}

void Hdf5Reader::CheckSum() const {
  if (!expected_sum_) return;
  ReadRest("/", 1);
  if (sum_.Total() == *expected_sum_) return;
  Fail(ErrorCode::kDataLoss,
       StrCat("its checksum does not fit: the file is damaged; take another copy or an earlier "
              "snapshot (if it was changed on purpose, delete its attribute '",
              kHdf5SumName, "')"),
       {.file = path_});
}

BlobProto Hdf5Reader::ReadArray(const std::string& dataset) const {
  const Hdf5Id opened = Open(dataset);
  BlobProto blob;
  blob.mutable_shape();
  const std::vector<int64_t> dims = Dims(opened.get(), dataset);
  for (int64_t dim : dims) blob.mutable_shape()->add_dim(dim);
  const int count = static_cast<int>(ShapeOf(blob).count());
  const Hdf5Id type(H5Dget_type(opened.get()), H5Tclose);
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_FLOAT && kind != H5T_INTEGER) {
    FailDamaged("the data set '" + dataset + "' does not hold numbers");
  }
  const bool wide = H5Tget_size(type.get()) == 8;
  void* values = nullptr;
  if (count == 0) {
    if (expected_sum_) sum_.AddArray(dataset, dims, wide, "");
    return blob;
  }
  if (wide) {
    blob.mutable_double_data()->Resize(count, 0);
    values = blob.mutable_double_data()->mutable_data();
  } else {
    blob.mutable_data()->Resize(count, 0);
    values = blob.mutable_data()->mutable_data();
  }
  if (H5Dread(opened.get(), wide ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL,
              H5P_DEFAULT, values) < 0) {
    FailDamaged("the values of the data set '" + dataset + "' cannot be read");
  }
  const size_t bytes = static_cast<size_t>(count) * (wide ? sizeof(double) : sizeof(float));
  if (expected_sum_) sum_.AddArray(dataset, dims, wide, ViewOf(values, bytes));
  return blob;
}

int32_t Hdf5Reader::ReadInteger(const std::string& dataset) const {
  const double value = ReadReal(dataset);
  if (!(std::abs(value) <= std::numeric_limits<int32_t>::max())) {
    FailDamaged("the data set '" + dataset + "' is out of range");
  }
  return static_cast<int32_t>(value);
}

double Hdf5Reader::ReadReal(const std::string& dataset) const {
  const Hdf5Id opened = Open(dataset);
  double value = 0;
  if (Shape(Dims(opened.get(), dataset)).count() != 1 ||
      H5Dread(opened.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) < 0) {
    FailDamaged("the data set '" + dataset + "' is not one number");
  }
  sum_.AddNumber(dataset, value);
  return value;
}

std::string Hdf5Reader::ReadString(const std::string& dataset) const {
  const Hdf5Id opened = Open(dataset);
  const Hdf5Id type(H5Dget_type(opened.get()), H5Tclose);
  const bool is_text =
      H5Tget_class(type.get()) == H5T_STRING && H5Tis_variable_str(type.get()) == 0;
  if (!is_text || Shape(Dims(opened.get(), dataset)).count() != 1) {
    FailDamaged("the data set '" + dataset + "' is not a text");
  }
  std::string value(H5Tget_size(type.get()), '\0');
  if (H5Dread(opened.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()) < 0) {
    FailDamaged("the data set '" + dataset + "' cannot be read");
  }
  value.resize(UpToZero(value).size());
  sum_.AddBytes(dataset, value);
  return value;
}

std::string Hdf5Reader::ReadBytes(const std::string& dataset) const {
  const Hdf5Id opened = Open(dataset);
  std::string value(static_cast<size_t>(Shape(Dims(opened.get(), dataset)).count()), '\0');
  if (H5Dread(opened.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, value.data()) < 0) {
    FailDamaged("the data set '" + dataset + "' cannot be read");
  }
  sum_.AddBytes(dataset, value);
  return value;
}

Hdf5Writer::Hdf5Writer(const std::string& path, const std::string& temporary,
                       uint64_t expected_bytes)
    : path_(path),
      expected_bytes_(expected_bytes),
      file_(H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC,
                      PropertiesWithoutTimes(H5P_FILE_CREATE).get(), H5P_DEFAULT),
            H5Fclose) {
  if (!file_.ok()) FailWriting();
}

void Hdf5Writer::FailWriting() const {
  // The library gives no reason; errno usually has it, and a full disk can be detected.
  const int error = errno;
  std::error_code ignored;
  const auto folder = std::filesystem::path(path_).parent_path();
  const auto space = std::filesystem::space(folder.empty() ? "." : folder, ignored);
  const bool full = !ignored && space.available < expected_bytes_;
  FailWrite(path_, full ? ENOSPC : error == 0 ? EIO : error, expected_bytes_);
}

void Hdf5Writer::MakeGroup(const std::string& name) {
  const Hdf5Id properties = PropertiesWithoutTimes(H5P_GROUP_CREATE);
  const Hdf5Id group(
      H5Gcreate2(file_.get(), name.c_str(), H5P_DEFAULT, properties.get(), H5P_DEFAULT), H5Gclose);
  if (!group.ok()) FailWriting();
  sum_.AddGroup(name);
}

void Hdf5Writer::Write(const std::string& dataset, const std::vector<hsize_t>& dims,
                       hid_t stored_type, hid_t memory_type, const void* values) {
  errno = 0;
  const Hdf5Id space(H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
                     H5Sclose);
  const Hdf5Id properties = PropertiesWithoutTimes(H5P_DATASET_CREATE);
  Hdf5Id created(H5Dcreate2(file_.get(), dataset.c_str(), stored_type, space.get(), H5P_DEFAULT,
                            properties.get(), H5P_DEFAULT),
                 H5Dclose);
  const bool empty = std::find(dims.begin(), dims.end(), hsize_t{0}) != dims.end();
  const bool written = created.ok() && (empty || H5Dwrite(created.get(), memory_type, H5S_ALL,
                                                          H5S_ALL, H5P_DEFAULT, values) >= 0);
  if (!written || !created.CloseNow()) FailWriting();
}

void Hdf5Writer::WriteValues(const std::string& dataset, const Shape& shape, DType dtype,
                             const void* values) {
  const hid_t type = dtype == DType::kF64 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_FLOAT;
  Write(dataset, {shape.dims().begin(), shape.dims().end()}, type, type, values);
  const size_t bytes = static_cast<size_t>(shape.count()) * SizeOf(dtype);
  sum_.AddArray(dataset, {shape.dims().begin(), shape.dims().end()}, dtype == DType::kF64,
                ViewOf(values, bytes));
}

void Hdf5Writer::WriteData(const std::string& dataset, const BlobProto& blob) {
  CheckBlob(blob);
  if (!blob.double_data().empty()) {
    return WriteValues(dataset, ShapeOf(blob), DType::kF64, blob.double_data().data());
  }
  // Through a tensor, since the values may be stored in several forms.
  Tensor values(ShapeOf(blob), DType::kF32);
  CopyTo(blob, values.view());
  WriteValues(dataset, values.view().shape(), DType::kF32, values.view().raw());
}

void Hdf5Writer::WriteDiff(const std::string& dataset, const BlobProto& blob) {
  if (!blob.double_diff().empty()) {
    return WriteValues(dataset, ShapeOf(blob), DType::kF64, blob.double_diff().data());
  }
  Tensor values(ShapeOf(blob), DType::kF32);
  CopyDiffTo(blob, values.view());
  WriteValues(dataset, values.view().shape(), DType::kF32, values.view().raw());
}

void Hdf5Writer::WriteInteger(const std::string& dataset, int32_t value) {
  Write(dataset, {1}, H5T_NATIVE_INT32, H5T_NATIVE_INT32, &value);
  sum_.AddNumber(dataset, value);
}

void Hdf5Writer::WriteReal(const std::string& dataset, float value) {
  Write(dataset, {1}, H5T_NATIVE_FLOAT, H5T_NATIVE_FLOAT, &value);
  sum_.AddNumber(dataset, value);
}

void Hdf5Writer::WriteString(const std::string& dataset, const std::string& value) {
  const Hdf5Id type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.get(), value.size() + 1);
  Write(dataset, {}, type.get(), type.get(), value.c_str());
  sum_.AddBytes(dataset, UpToZero(value));
}

void Hdf5Writer::WriteBytes(const std::string& dataset, const std::string& value) {
  Write(dataset, {value.size()}, H5T_NATIVE_UINT8, H5T_NATIVE_UINT8, value.data());
  sum_.AddBytes(dataset, value);
}

void Hdf5Writer::Close() {
  errno = 0;
  if (!WriteHdf5Sum(file_.get(), sum_.Total())) FailWriting();
  if (H5Fflush(file_.get(), H5F_SCOPE_GLOBAL) < 0 || !file_.CloseNow()) FailWriting();
}

void WriteHdf5Atomically(const std::string& path, uint64_t expected_bytes,
                         const std::function<void(Hdf5Writer&)>& fill) {
  AtomicFile file(path, expected_bytes);
  {
    Hdf5Writer writer(path, file.temporary(), expected_bytes);
    fill(writer);
    writer.Close();
  }
  file.Commit();
}

}  // namespace crema
