// Reading datasets of an HDF5 file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crema {

class Hdf5File;

// One dataset, read by rows: a row is what one index of the first axis holds. Lives on without its
// file. Thread safety: one thread at a time; many may read at once, and wait for each other.
class Hdf5Dataset {
 public:
  // Throws kDataLoss: no such dataset (the message lists what there is), not numbers, no axes.
  Hdf5Dataset(const Hdf5File& file, const std::string& name);
  ~Hdf5Dataset();
  Hdf5Dataset(Hdf5Dataset&&) noexcept;
  Hdf5Dataset& operator=(Hdf5Dataset&&) noexcept;

  // Of any number of elements.
  const std::vector<int64_t>& extents() const;
  uint64_t rows() const { return static_cast<uint64_t>(extents()[0]); }
  // Throws kDataLoss for a row that is too large for a blob.
  Shape RowShape() const;
  // Converts rows first, first + 1, … to float or double. Needs little memory besides `out`: of
  // compressed chunks a few at a time. Requires: the rows are there, room for them. Throws
  // kDataLoss.
  void ReadRows(uint64_t first, uint64_t count, DType dtype, void* out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Thread safety: as Hdf5Dataset.
class Hdf5File {
 public:
  // Throws kNotFound, kIoFailure, or kDataLoss where `path` is not an HDF5 file.
  explicit Hdf5File(const std::string& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  std::vector<std::string> Names() const;  // of what lies in the root group
  // Throws as Hdf5Dataset, and for a dataset that is too large for a blob.
  Shape ShapeOf(const std::string& dataset) const;
  // Converts to float or double. Requires: room for the whole dataset. Throws kDataLoss.
  void Read(const std::string& dataset, DType dtype, void* out) const;

 private:
  friend class Hdf5Dataset;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
