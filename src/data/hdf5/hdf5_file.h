// Reads datasets of an HDF5 file.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace crema {

class Hdf5File;

// One dataset, read by rows; a row is one index of the first axis. May outlive its file. Thread
// safety: one thread at a time; several datasets may be read at once but are serialized.
class Hdf5Dataset {
 public:
  // Throws kDataLoss: no such dataset (the message lists those that exist), not numbers, no axes.
  Hdf5Dataset(const Hdf5File& file, const std::string& name);
  ~Hdf5Dataset();
  Hdf5Dataset(Hdf5Dataset&&) noexcept;
  Hdf5Dataset& operator=(Hdf5Dataset&&) noexcept;

  // Returns the sizes of the axes; the number of elements is not limited.
  const std::vector<int64_t>& dims() const;
  uint64_t rows() const { return static_cast<uint64_t>(dims()[0]); }
  // Throws kDataLoss if a row is too large for a blob.
  Shape RowShape() const;
  // Reads rows first, first + 1, … and converts them to float or double. Allocates little besides
  // `out`: a few chunks if compressed. Requires: the rows exist and fit `out`. Throws kDataLoss.
  void ReadRows(uint64_t first, uint64_t count, DType dtype, void* out) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Thread safety: as Hdf5Dataset.
class Hdf5File {
 public:
  // Throws kNotFound, kIoFailure, or kDataLoss if `path` is not an HDF5 file.
  explicit Hdf5File(const std::string& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  std::vector<std::string> Names() const;  // objects of the root group
  // Throws like Hdf5Dataset, and for a dataset that is too large for a blob.
  Shape ShapeOf(const std::string& dataset) const;
  // Converts to float or double. Requires: `out` holds the whole dataset. Throws kDataLoss.
  void Read(const std::string& dataset, DType dtype, void* out) const;

 private:
  friend class Hdf5Dataset;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
