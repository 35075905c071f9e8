// The checksum of the HDF5 files that we write: an attribute of the root group. Caffe looks for
// data sets only, and never sees it.
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

// CRC-32 over the names, kinds, shapes and values of all that is in a file. What is added is not
// kept, and the order in which it is added does not matter: readers go by names, writers by layers.
class Hdf5Sum {
 public:
  void AddGroup(const std::string& name);
  // `values` are floats or doubles in memory.
  void AddArray(const std::string& name, const std::vector<int64_t>& extents, bool doubles,
                std::string_view values);
  void AddNumber(const std::string& name, double value);
  void AddBytes(const std::string& name, std::string_view bytes);

  bool Has(const std::string& name) const;
  uint32_t Total() const;

 private:
  void Add(const std::string& name, std::string_view kind, std::string_view values);

  std::map<std::string, uint32_t> sums_;
};

// Whether there is an attribute of that name, readable or not.
bool HasHdf5Sum(hid_t file);
// Nothing if it cannot be read.
std::optional<uint32_t> ReadHdf5Sum(hid_t file);
bool WriteHdf5Sum(hid_t file, uint32_t sum);

}  // namespace crema
