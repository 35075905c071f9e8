// Rows of numbers, such as what a net computes for each sample, written to a file as they come.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"

namespace crema {

// What is not closed leaves nothing under the name. Thread safety: one thread at a time.
class FeatureWriter {
 public:
  virtual ~FeatureWriter() = default;
  // `rows` samples, all of the extents of the first call: rows x ..., f32 or f64 (which .npy and
  // LMDB hold as f32).
  // Throws kInvalidArgument (other extents), kIoFailure.
  virtual void Append(const ConstTensorView& rows) = 0;
  virtual void Close() = 0;
};

// By the end of the name: .npy, one array; .h5 or .hdf5, one dataset called `name`; no extension
// or .lmdb, an LMDB of Datums with float_data and the keys 0000000000, 0000000001, ..., as Caffe's
// extract_features makes. Throws kInvalidArgument (nothing may be under the name of an LMDB),
// kUnsupported (this build has no HDF5), kIoFailure.
std::unique_ptr<FeatureWriter> NewFeatureWriter(const std::string& path, const std::string& name);

// The single kinds.
std::unique_ptr<FeatureWriter> NewNpyWriter(const std::string& path);
std::unique_ptr<FeatureWriter> NewHdf5FeatureWriter(const std::string& path,
                                                    const std::string& name);
std::unique_ptr<FeatureWriter> NewLmdbFeatureWriter(const std::string& path);

// Throws kInvalidArgument unless `shape` is `first` but for the number of rows. For writers.
void CheckSameRows(const Shape& first, const Shape& shape, const std::string& path);

}  // namespace crema
