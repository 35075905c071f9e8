// HDF5 data sets, as HDF5Data reads them, in the form of records: a row is a Datum.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

struct Hdf5RecordOptions {
  std::string data = "data";    // name of the dataset with the samples
  std::string label = "label";  // and of that with their labels; it need not be there
  bool bytes = false;           // reading: Datums of bytes; each value must be one
  uint64_t rows_per_file = 0;   // writing; 0: as many as fit into a GiB
};

// Name of the list in a folder that CreateHdf5Records writes.
inline constexpr char kHdf5ListName[] = "list.txt";

// Whether `path` is an HDF5 file, a text file that names one first, or a folder with such a list.
bool LooksLikeHdf5Records(const std::string& path);

// Rows of up to three axes (missing ones have the extent 1) as Datums of floats; keys are their
// numbers, of eight digits. Throws kNotFound, kIoFailure, kDataLoss, kUnsupported (more axes,
// several labels a row; builds without HDF5). Reading throws kDataLoss for a label that is not
// whole, and for a value that is no byte where bytes are asked for.
std::unique_ptr<RecordReader> OpenHdf5Records(const std::string& path,
                                              const Hdf5RecordOptions& options);

// Makes the folder `path` with 000000.h5, 000001.h5, ... and the list of them, which HDF5Data
// takes as `source`: floats, N x C x H x W, and labels, where records have them. Records are
// Datums of one shape; keys are numbers of eight digits. Holds a few rows at a time. Throws
// kInvalidArgument (path exists, or has a blank, which ends a path in such a list), kIoFailure; Put
// also kDataLoss and kInvalidArgument for a record of another shape or without label.
std::unique_ptr<RecordWriter> CreateHdf5Records(const std::string& path,
                                                const Hdf5RecordOptions& options);

// Goes on behind the last file that is full.
RecordAppender AppendHdf5Records(const std::string& path, const Hdf5RecordOptions& options);

// Key of row `number`: eight digits.
std::string RowKey(uint64_t number);

}  // namespace crema
