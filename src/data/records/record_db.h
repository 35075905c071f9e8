// Data sets of (key, value) records, whatever they are kept in.
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

// Reads the records in ascending order of their keys (tar shards: as they lie), for ever: after the
// last comes the first. Reading throws kDataLoss (damaged, or changed since it was opened) and
// kIoFailure. What it returns stays valid until the next call. Thread safety: one thread at a time,
// count() and Clone() any thread while another reads; any number of readers of one data set in a
// process.
class RecordReader {
 public:
  virtual ~RecordReader() = default;

  // Records; never 0. A LevelDB does not know it, and is read through when it is asked for first.
  virtual uint64_t count() const = 0;
  virtual KeyedRecord Next() = 0;
  // The next record is number `ordinal` modulo count().
  virtual void Seek(uint64_t ordinal) = 0;
  // Leaves out some records, without looking at what they hold where that is possible.
  virtual void Skip(uint64_t records) = 0;
  // Record number `ordinal`, below count(), wherever the reader stands; Next goes on where it was.
  // The first call walks all keys of an LMDB or LevelDB, and notes where they are.
  virtual KeyedRecord At(uint64_t ordinal) = 0;
  // Whether records stay valid as long as the reader lives: they lie in mapped memory.
  virtual bool lasting() const { return false; }
  // False where it is known that the Datums have no labels.
  virtual bool labelled() const { return true; }
  // False where it is known that the records are no AnnotatedDatums: that kind holds no boxes.
  virtual bool annotated() const { return true; }
  // Another reader of the same data set, which stands at the first record. Nothing is examined a
  // second time.
  virtual std::unique_ptr<RecordReader> Clone() const = 0;
};

// Writes a new data set. What is not closed is removed again, so that nobody trains on half a set.
// Thread safety: one thread at a time.
class RecordWriter {
 public:
  virtual ~RecordWriter() = default;
  // Throws kInvalidArgument for a key that is there, kIoFailure.
  virtual void Put(std::string_view key, std::string_view value) = 0;
  // Commits what is left and syncs it to disk. No Put after it.
  virtual void Close() = 0;
};

// What lies at `path` decides which kind it is: a folder that is an LMDB, a LevelDB or holds .tar
// files, a tar file, or a pattern of tar files such as train-{000..009}.tar. Throws kNotFound (no
// such path), kDataLoss (no data set, damaged, empty), kIoFailure (may not be read, in use),
// kUnsupported (a kind that this build lacks).
std::unique_ptr<RecordReader> OpenRecords(const std::string& path);

// TAR: records must be Datums with an image file, see tar_writer.h. Throws kInvalidArgument where
// `path` exists, kIoFailure where it cannot be made, kUnsupported.
std::unique_ptr<RecordWriter> CreateRecords(const std::string& path, DataParameter::DB backend);

// Goes on with a data set that was closed, or left when its writer was killed. What is not closed
// stays, up to where it was committed. Throws what OpenRecords throws (it may be empty, though),
// kUnsupported for kinds that cannot be continued.
struct RecordAppender {
  std::unique_ptr<RecordWriter> writer;
  std::string last_key;  // empty: no record yet
};
RecordAppender AppendRecords(const std::string& path, DataParameter::DB backend);

}  // namespace crema
