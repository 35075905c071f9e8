#include "format/hdf5_sum.h"

#include <bit>

#include "core/strings.h"
#include "format/hdf5_file.h"
#include "format/seal.h"

namespace crema {
namespace {

// Sums the in-memory representation.
static_assert(std::endian::native == std::endian::little);

// Makes "/data/ip/0" and "data/ip/0" equal.
std::string PathOf(const std::string& name) { return name.substr(name.starts_with('/') ? 1 : 0); }

template <typename T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

void Hdf5Sum::Add(const std::string& name, std::string_view kind, std::string_view values) {
  const uint32_t start = Crc32(kind);
  // zlib resets the sum if the address is null.
  sums_[PathOf(name)] = values.empty() ? start : Crc32(values, start);
}

void Hdf5Sum::AddGroup(const std::string& name) { Add(name, "group", ""); }

void Hdf5Sum::AddArray(const std::string& name, const std::vector<int64_t>& dims, bool doubles,
                       std::string_view values) {
  std::string kind = doubles ? "f64" : "f32";
  for (const int64_t dim : dims) kind += StrCat(" ", dim);
  Add(name, kind, values);
}

void Hdf5Sum::AddNumber(const std::string& name, double value) {
  Add(name, "number", BytesOf(value));
}

void Hdf5Sum::AddBytes(const std::string& name, std::string_view bytes) {
  Add(name, "bytes", bytes);
}

bool Hdf5Sum::Has(const std::string& name) const { return sums_.contains(PathOf(name)); }

uint32_t Hdf5Sum::Total() const {
  uint32_t total = 0;
  for (const auto& [name, sum] : sums_) {
    // Includes the final zero, which no name contains.
    total = Crc32(BytesOf(sum), Crc32({name.c_str(), name.size() + 1}, total));
  }
  return total;
}

// A negative result means a damaged root group and counts as yes.
bool HasHdf5Sum(hid_t file) { return H5Aexists(file, kHdf5SumName) != 0; }

std::optional<uint32_t> ReadHdf5Sum(hid_t file) {
  const Hdf5Id attribute(H5Aopen(file, kHdf5SumName, H5P_DEFAULT), H5Aclose);
  if (!attribute.ok()) return std::nullopt;
  const Hdf5Id space(H5Aget_space(attribute.get()), H5Sclose);
  const Hdf5Id type(H5Aget_type(attribute.get()), H5Tclose);
  // Reading anything but a single number would overflow `sum`.
  if (!space.ok() || H5Sget_simple_extent_npoints(space.get()) != 1) return std::nullopt;
  if (!type.ok() || H5Tget_class(type.get()) != H5T_INTEGER) return std::nullopt;
  uint32_t sum = 0;
  if (H5Aread(attribute.get(), H5T_NATIVE_UINT32, &sum) < 0) return std::nullopt;
  return sum;
}

bool WriteHdf5Sum(hid_t file, uint32_t sum) {
  const Hdf5Id space(H5Screate(H5S_SCALAR), H5Sclose);
  Hdf5Id attribute(
      H5Acreate2(file, kHdf5SumName, H5T_STD_U32LE, space.get(), H5P_DEFAULT, H5P_DEFAULT),
      H5Aclose);
  return attribute.ok() && H5Awrite(attribute.get(), H5T_NATIVE_UINT32, &sum) >= 0 &&
         attribute.CloseNow();
}

}  // namespace crema
