// Data sets in LMDB: ordered (key, value) records in a folder with one file. Written with liblmdb,
// read without it.
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

// True for a folder that holds `data.mdb`.
bool LooksLikeLmdb(const std::string& path);

// Reads the records in ascending order of their keys, for ever: after the last comes the first. It
// reads the set as it was when it was opened, takes no lock, and writes nothing.
// Records point into the mapped file and stay valid as long as the reader or a clone of it lives.
// Reading throws kDataLoss (damaged, cut short or changed since it was opened) and kIoFailure.
// Behind the new end of a file that is cut after a record was returned, the record holds zeros, and
// the next call throws.
// Thread safety: one thread at a time, count() and Clone() any thread while another reads; any
// number of readers of one data set.
class LmdbReader {
 public:
  // Throws kNotFound (no such path), kDataLoss (not an LMDB, damaged, cut short, or empty),
  // kIoFailure (may not be read).
  explicit LmdbReader(const std::string& path);
  ~LmdbReader();
  LmdbReader(LmdbReader&&) noexcept;
  LmdbReader& operator=(LmdbReader&&) noexcept;

  // Another reader of the same snapshot, at the first record. Opens nothing.
  LmdbReader Clone() const;
  uint64_t count() const;  // records; never 0

  LmdbRecord Next();
  // The next record is number `ordinal` modulo count(). Walks the keys, not the values, unless At
  // was called before.
  void Seek(uint64_t ordinal);
  void Skip(uint64_t records);  // walks the keys
  // Record number `ordinal`, below count(); Next goes on where it was. The first call walks all
  // keys and notes 24 bytes for each.
  LmdbRecord At(uint64_t ordinal);

 private:
  struct Impl;
  explicit LmdbReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Writes a new data set. What is not closed is removed again, so that nobody trains on half a set.
// Thread safety: one thread at a time.
class LmdbWriter {
 public:
  // Makes the folder. Throws kInvalidArgument where `path` exists, kIoFailure where it cannot be
  // made.
  explicit LmdbWriter(const std::string& path);
  // Goes on with a data set and says what its last key is, empty if there is none. What is not
  // closed stays as far as it was committed. Throws as LmdbReader, but takes an empty one.
  LmdbWriter(const std::string& path, std::string* last_key);
  ~LmdbWriter();
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  // Keys are 1 to 511 bytes. Throws kInvalidArgument for a key that is there, kIoFailure.
  void Put(std::string_view key, std::string_view value);
  // Commits what is left and syncs it to disk. No Put after it.
  void Close();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace crema
