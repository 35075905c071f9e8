// Converts records between data set formats.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace crema::tools {

enum class SetKind { kDatabase, kTar, kHdf5 };  // kDatabase: LMDB, LevelDB

struct KeyedValue {
  std::string key;
  std::string value;
};

// Converts record `index` of the data set `source`. Key: unchanged between databases; the number
// for HDF5; else the name, prefixed by the number if names need not ascend (from tar) or are
// invalid in a tar archive. Value: unchanged, except that raw pixels become PNG files in tar, and
// image files become raw pixels in HDF5. Throws kInvalidArgument for an AnnotatedDatum, which tar
// and HDF5 cannot hold, kDataLoss for damage. Thread safety: any number of threads.
KeyedValue ChangeRecord(SetKind from, SetKind to, const std::string& source, uint64_t index,
                        KeyedValue record);

}  // namespace crema::tools
