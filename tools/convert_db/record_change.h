// What becomes of a record on its way into a data set of another kind.
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

// Record number `index` of the data set `source`. Its key: between databases as it is; into HDF5
// its number; else its name, with its number in front where names need not ascend (out of tar) or
// may not stand in a tar archive. Its value: as it is, but raw pixels become PNG files in tar, and
// image files become raw pixels in HDF5. Throws kInvalidArgument for an AnnotatedDatum, which tar
// and HDF5 cannot hold, kDataLoss for what is damaged. Thread safety: any number of threads.
KeyedValue ChangeRecord(SetKind from, SetKind to, const std::string& source, uint64_t index,
                        KeyedValue record);

}  // namespace crema::tools
