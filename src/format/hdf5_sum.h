// Checksum of our HDF5 files: an attribute of the root group. Caffe reads datasets only and ignores
// it.
#pragma once

#include <hdf5.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

inline constexpr const char* kHdf5SumName = "crema_crc32";

// CRC-32 over names, types, shapes and values of all arrays. Keeps no values and does not depend on
// the order of the arrays: readers go by names, writers by layers.
class Hdf5Sum {
 public:
  void AddGroup(const std::string& name);
  // `values` are floats or doubles in memory.
  void AddArray(const std::string& name, const std::vector<int64_t>& dims, bool doubles,
                std::string_view values);
  void AddNumber(const std::string& name, double value);
  void AddBytes(const std::string& name, std::string_view bytes);

  bool Has(const std::string& name) const;
  uint32_t Total() const;

 private:
  void Add(const std::string& name, std::string_view kind, std::string_view values);

  std::map<std::string, uint32_t> sums_;
};

// Returns true if the attribute exists, readable or not.
bool HasHdf5Sum(hid_t file);
// Returns nothing if it cannot be read.
std::optional<uint32_t> ReadHdf5Sum(hid_t file);
bool WriteHdf5Sum(hid_t file, uint32_t sum);

}  // namespace crema
