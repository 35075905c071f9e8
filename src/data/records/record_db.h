// Data sets of (key, value) records, independent of their format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "crema.pb.h"

namespace crema {

struct KeyedRecord {
  std::string_view key;
  std::string_view value;
};

// Reads the records in ascending order of their keys (tar shards: in storage order), wrapping
// around after the last. Reading throws kDataLoss (damaged, or changed since it was opened) and
// kIoFailure. Results are valid until the next call. Thread safety: one thread at a time; count()
// and Clone() from any thread during reads; any number of readers per data set in a process.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Returns the number of records, never 0. The first call on a LevelDB reads the whole data set.
  virtual uint64_t count() const = 0;
  virtual KeyedRecord Next() = 0;
  // Makes record `ordinal` modulo count() the next one.
  virtual void Seek(uint64_t ordinal) = 0;
  // Skips records, without reading their values if possible.
  virtual void Skip(uint64_t records) = 0;
  // Returns record `ordinal`. Requires: below count(). Does not move Next. The first call on an
  // LMDB or LevelDB walks all keys and stores their places.
  virtual KeyedRecord At(uint64_t ordinal) = 0;
  // Returns true if records stay valid as long as the reader: they are in mapped memory.
  virtual bool persistent() const { return false; }
  // Returns false if the Datums are known to have no labels.
  virtual bool labelled() const { return true; }
  // Returns false if the records are known not to be AnnotatedDatums: the format has no boxes.
  virtual bool annotated() const { return true; }
  // Returns a reader of the same data set, at the first record, without examining it again.
  virtual std::unique_ptr<RecordReader> Clone() const = 0;
};

// Writes a new data set. Removes it unless it is closed, so that no run uses an incomplete one.
// Thread safety: one thread at a time.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // Throws kInvalidArgument for a duplicate key, kIoFailure.
  virtual void Put(std::string_view key, std::string_view value) = 0;
  // Commits the rest and syncs it to disk. No Put afterwards.
  virtual void Close() = 0;
};

// Detects the format: a folder with an LMDB, a LevelDB or .tar files, a tar file, or a pattern of
// tar files such as train-{000..009}.tar. Throws kNotFound (no such path), kDataLoss (not a data
// set, damaged, empty), kIoFailure (no permission, in use), kUnsupported (a format that this build
// lacks).
std::unique_ptr<RecordReader> OpenRecords(const std::string& path);

// TAR: records must be Datums with an image file, see tar_shards.h. Throws kInvalidArgument if
// `path` exists, kIoFailure if it cannot be created, kUnsupported.
std::unique_ptr<RecordWriter> CreateRecords(const std::string& path, DataParameter::DB backend);

// Continues a data set that was closed, or whose writer was killed. If unclosed, keeps the
// committed records. Throws like OpenRecords (but accepts an empty one), kUnsupported for formats
// that cannot be continued.
struct RecordAppender {
  std::unique_ptr<RecordWriter> writer;
  std::string last_key;  // empty: no records
};
RecordAppender AppendRecords(const std::string& path, DataParameter::DB backend);

}  // namespace crema
