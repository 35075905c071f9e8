// Writes rows of numbers to a file, such as the features that a net computes for each sample.
#pragma once

#include <memory>
#include <string>

#include "core/tensor.h"
#include "crema.pb.h"

namespace crema {

// An unclosed writer leaves no file. Thread safety: one thread at a time.
class FeatureWriter {
 public:
  virtual ~FeatureWriter() = default;
  // Appends samples: rows x ..., f32 or f64 (.npy and LMDB store f32). All calls must agree in the
  // other axes. Throws kInvalidArgument (another shape), kIoFailure.
  virtual void Append(const ConstTensorView& rows) = 0;
  virtual void Close() = 0;
};

// Chooses the format by extension. .npy: one array; .h5 or .hdf5: one dataset called `name`; .lmdb
// or none: an LMDB of Datums with float_data and the keys 0000000000, 0000000001, ..., like Caffe's
// extract_features. Throws kInvalidArgument (the path of an LMDB exists), kUnsupported (HDF5 in a
// build without it), kIoFailure.
std::unique_ptr<FeatureWriter> NewFeatureWriter(const std::string& path, const std::string& name);

// Writers of one format each.
std::unique_ptr<FeatureWriter> NewNpyWriter(const std::string& path);
std::unique_ptr<FeatureWriter> NewHdf5FeatureWriter(const std::string& path,
                                                    const std::string& name);
// LMDB or LevelDB, as described above. Throws what CreateRecords throws.
std::unique_ptr<FeatureWriter> NewRecordFeatureWriter(const std::string& path,
                                                      DataParameter::DB backend);

// For implementations: throws kInvalidArgument unless `shape` equals `first` in all but the first
// axis.
void CheckSameRows(const Shape& first, const Shape& shape, const std::string& path);

}  // namespace crema
