// Data sets in LevelDB: ordered (key, value) records in a folder of sorted tables. Excluded from
// builds without LevelDB.
#pragma once

#include <memory>
#include <string>

#include "data/records/record_db.h"

namespace crema {

// LevelDB allows one process at a time, and writes a lock and a log to the folder. Within the
// process, all readers share the snapshot of the first. Throws kDataLoss (not a LevelDB, damaged,
// empty), kIoFailure (in use, folder not writable).
std::unique_ptr<RecordReader> OpenLevelDb(const std::string& path);

// Creates the folder. Throws kInvalidArgument if `path` exists, kIoFailure.
std::unique_ptr<RecordWriter> CreateLevelDb(const std::string& path);

// Continues after the last key. Throws like OpenLevelDb, but accepts an empty one.
RecordAppender AppendLevelDb(const std::string& path);

}  // namespace crema
