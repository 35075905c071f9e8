// Writes datasets that grow by rows into a new HDF5 file.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"

namespace crema {

// Append flushes to the system, so that a program that ends early leaves a readable file. Thread
// safety: one thread at a time.
class Hdf5Appender {
 public:
  // Creates or truncates the file. Errors use `name` instead of the path unless it is empty: for a
  // temporary file that is renamed later. Throws kIoFailure.
  explicit Hdf5Appender(const std::string& path, const std::string& name = "");
  ~Hdf5Appender();  // closes the file, without an error if that fails
  Hdf5Appender(const Hdf5Appender&) = delete;
  Hdf5Appender& operator=(const Hdf5Appender&) = delete;

  // Appends rows (first axis) to a dataset; the first call creates it. Requires: f32 or f64, at
  // least one axis. Throws kInvalidArgument if the row shape changes, kIoFailure.
  void Append(const std::string& dataset, const ConstTensorView& rows);
  void Flush();
  // Writes what is left and closes the file; nothing else may be called after it. Throws
  // kIoFailure.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
