// Data sets in LMDB: ordered (key, value) records in a folder with one file. Written by liblmdb,
// read by our own code.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace crema {

struct LmdbRecord {
  std::string_view key;
  std::string_view value;
};

// Returns true for a folder with `data.mdb`.
bool LooksLikeLmdb(const std::string& path);

// Reads the records in ascending order of their keys, wrapping around after the last. Reads the
// snapshot at the time of opening, takes no lock and writes nothing. Records point into the mapped
// file and stay valid as long as the reader or a clone lives. Reading throws kDataLoss (damaged,
// truncated or changed since it was opened) and kIoFailure. If the file is truncated after a record
// was returned, the missing part reads as zeros and the next call throws. Thread safety: one thread
// at a time; count() and Clone() from any thread during reads; any number of readers per data set.
class LmdbReader {
 public:
  // Throws kNotFound (no such path), kDataLoss (not an LMDB, damaged, truncated, or empty),
  // kIoFailure (no permission).
  explicit LmdbReader(const std::string& path);
  ~LmdbReader();
  LmdbReader(LmdbReader&&) noexcept;
  LmdbReader& operator=(LmdbReader&&) noexcept;

  // Returns a reader of the same snapshot, at the first record, without opening the file again.
  LmdbReader Clone() const;
  uint64_t count() const;  // never 0

  LmdbRecord Next();
  // Makes record `ordinal` modulo count() the next one. Walks the keys, not the values, unless At
  // was called before.
  void Seek(uint64_t ordinal);
  void Skip(uint64_t records);  // walks the keys
  // Returns record `ordinal`. Requires: below count(). Does not move Next. The first call walks all
  // keys and stores 24 bytes for each.
  LmdbRecord At(uint64_t ordinal);

 private:
  struct Impl;
  explicit LmdbReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes a new data set. Removes it unless it is closed, so that no run uses an incomplete one.
// Thread safety: one thread at a time.
class LmdbWriter {
 public:
  // Creates the folder. Throws kInvalidArgument if `path` exists, kIoFailure if it cannot be
  // created.
  explicit LmdbWriter(const std::string& path);
  // Continues a data set and returns its last key, empty without one. If unclosed, keeps the
  // committed records. Throws like LmdbReader, but accepts an empty one.
  LmdbWriter(const std::string& path, std::string* last_key);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  // Keys have 1 to 511 bytes. Throws kInvalidArgument for a duplicate key, kIoFailure.
  void Put(std::string_view key, std::string_view value);
  // Commits the rest and syncs it to disk. No Put afterwards.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
