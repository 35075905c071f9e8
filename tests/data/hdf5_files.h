// Writes HDF5 files.
#pragma once

#include <hdf5.h>

#include <string>
#include <vector>

namespace crema::testing {

struct Dataset {
  std::string name;
  std::vector<hsize_t> dims;
  std::vector<double> values;
  hid_t type = H5T_IEEE_F32LE;
};

inline void WriteHdf5(const std::string& path, const std::vector<Dataset>& datasets) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  for (const Dataset& set : datasets) {
    const hid_t space =
        H5Screate_simple(static_cast<int>(set.dims.size()), set.dims.data(), nullptr);
    const hid_t id =
        H5Dcreate2(file, set.name.c_str(), set.type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (!set.values.empty()) {
      H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, set.values.data());
    }
    H5Dclose(id);
    H5Sclose(space);
  }
  H5Fclose(file);
}

}  // namespace crema::testing
