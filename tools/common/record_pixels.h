// Decodes the image of a record, which is a Datum or an AnnotatedDatum.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "crema.pb.h"
#include "data/records/datum.h"
#include "data/records/record_db.h"

namespace crema::tools {

// Returns true for an AnnotatedDatum: its field 1 is a message, a Datum's is a number.
bool LooksAnnotated(std::string_view value);

// A copy of a record, independent of the reader.
struct OwnedRecord {
  uint64_t ordinal = 0;  // from 0
  std::string key;
  std::string value;
};

// Reads all records once, in order. Thread safety: one thread at a time.
class RecordPass {
 public:
  explicit RecordPass(const std::string& path) : path_(path), reader_(OpenRecords(path)) {}

  const std::string& path() const { return path_; }
  uint64_t count() const { return reader_->count(); }
  // Returns nothing at the end.
  std::optional<OwnedRecord> Next();

 private:
  const std::string path_;
  const std::unique_ptr<RecordReader> reader_;
  uint64_t next_ = 0;
};

// Decodes records without transforming them. Thread safety: one thread at a time.
class RecordPixels {
 public:
  explicit RecordPixels(const std::string& data_set) : data_set_(data_set), reader_(data_set) {}

  // The result is valid until the next call and while the value lives. Ignores boxes. Throws
  // kDataLoss, naming data set and key.
  PixelView Read(std::string_view key, std::string_view value);
  int label() const { return reader_.label(); }

 private:
  const std::string data_set_;
  DatumReader reader_;
  AnnotatedDatum annotated_;
};

}  // namespace crema::tools
