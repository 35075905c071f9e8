// Writes datasets that grow by rows into a new HDF5 file.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"

namespace crema {

// Whatever is appended is on its way to the disk when Append returns, so that a program that ends
// early leaves a file that can be read. Thread safety: one thread at a time.
class Hdf5Appender {
 public:
  // Makes the file; what was in it is lost. Errors call it `name` (empty: by its path), where it is
  // to have another path when it is whole. Throws kIoFailure.
  explicit Hdf5Appender(const std::string& path, const std::string& name = "");
  ~Hdf5Appender();  // closes
  Hdf5Appender(const Hdf5Appender&) = delete;
  Hdf5Appender& operator=(const Hdf5Appender&) = delete;

  // Adds rows (first axis) to a dataset, which the first call makes. Requires: f32 or f64, an axis.
  // Throws kInvalidArgument when a row has another shape than before, kIoFailure.
  void Append(const std::string& dataset, const ConstTensorView& rows);
  void Flush();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
