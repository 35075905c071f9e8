// Reads and writes HDF5 data sets (as for HDF5Data) as records: each row is a Datum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

struct Hdf5RecordOptions {
  std::string data = "data";    // name of the dataset with the samples
  std::string label = "label";  // dataset with the labels; optional
  bool bytes = false;           // reading: convert to bytes; each value must be one
  uint64_t rows_per_file = 0;   // writing; 0: as many as fit in a GiB
};

// Name of the list in a folder written by CreateHdf5Records.
inline constexpr char kHdf5ListName[] = "list.txt";

// Returns true for an HDF5 file, a text file whose first entry is one, or a folder with such a
// list.
bool LooksLikeHdf5Records(const std::string& path);

// Returns rows of up to three axes (missing ones have size 1) as Datums of floats; keys are row
// numbers with eight digits. Throws kNotFound, kIoFailure, kDataLoss, kUnsupported (more axes,
// several labels per row; builds without HDF5). Reading throws kDataLoss for a label that is not
// whole, and with `bytes` for a value that is not a byte.
std::unique_ptr<RecordReader> OpenHdf5Records(const std::string& path,
                                              const Hdf5RecordOptions& options);

// Creates the folder `path` with 000000.h5, 000001.h5, ... and their list, the `source` for
// HDF5Data. Writes floats, N x C x H x W, and labels if records have them. Records are Datums of
// one shape; keys are not stored: readers see row numbers with eight digits. Buffers a few rows.
// Throws kInvalidArgument (path exists, or contains a blank, which separates paths in the list),
// kIoFailure; Put also throws kDataLoss and kInvalidArgument for a record of another shape or
// without label.
std::unique_ptr<RecordWriter> CreateHdf5Records(const std::string& path,
                                                const Hdf5RecordOptions& options);

// Continues after the last complete file.
RecordAppender AppendHdf5Records(const std::string& path, const Hdf5RecordOptions& options);

// Returns the key of row `number`: eight digits.
std::string RowKey(uint64_t number);

}  // namespace crema
