// Data sets in LevelDB: ordered (key, value) records in a folder of sorted tables. Not there in
// builds without LevelDB.
#pragma once

#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

// A LevelDB can be open in one process at a time, which writes a lock and a log into its folder;
// inside of the process all readers share it. They see it as it was when the first one opened it.
// Throws kDataLoss (not a LevelDB, damaged, empty), kIoFailure (in use, folder that cannot be
// written).
std::unique_ptr<RecordReader> OpenLevelDb(const std::string& path);

// Makes the folder. Throws kInvalidArgument where `path` exists, kIoFailure.
std::unique_ptr<RecordWriter> CreateLevelDb(const std::string& path);

// Goes on behind its last key. Throws as OpenLevelDb, but takes an empty one.
RecordAppender AppendLevelDb(const std::string& path);

}  // namespace crema
