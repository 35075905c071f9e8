// Reading datasets of an HDF5 file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crema {

// Thread safety: one thread at a time; several files at once as far as the HDF5 library was built
// thread-safe (distributions do).
class Hdf5File {
 public:
  // Throws kNotFound, kIoFailure, or kDataLoss where `path` is not an HDF5 file.
  explicit Hdf5File(const std::string& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  std::vector<std::string> Names() const;  // of what lies in the root group
  // Throws kDataLoss: no such dataset (the message lists what there is), not numbers, no axes.
  Shape ShapeOf(const std::string& dataset) const;
  // Converts to float or double. Requires: room for the whole dataset. Throws kDataLoss.
  void Read(const std::string& dataset, DType dtype, void* out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
