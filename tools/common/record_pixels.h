// The image of a record, whether that is a Datum or an AnnotatedDatum.
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

// Whether a record is an AnnotatedDatum: its field 1 is a message, that of a Datum a number.
bool LooksAnnotated(std::string_view value);

// What lies outside of the reader of a data set.
struct OwnedRecord {
  uint64_t ordinal = 0;  // from 0
  std::string key;
  std::string value;
};

// The records in order, once. Thread safety: one thread at a time.
class RecordPass {
 public:
  explicit RecordPass(const std::string& path) : path_(path), reader_(OpenRecords(path)) {}

  const std::string& path() const { return path_; }
  uint64_t count() const { return reader_->count(); }
  // Nothing behind the last.
  std::optional<OwnedRecord> Next();

 private:
  const std::string path_;
  const std::unique_ptr<RecordReader> reader_;
  uint64_t next_ = 0;
};

// Decodes one record as it is stored. Thread safety: one thread at a time.
class RecordPixels {
 public:
  explicit RecordPixels(const std::string& data_set) : data_set_(data_set), reader_(data_set) {}

  // Valid until the next call, and as long as the value lives. Boxes are not looked at. Throws
  // kDataLoss, naming the data set and the key.
  PixelView Read(std::string_view key, std::string_view value);
  int label() const { return reader_.label(); }

 private:
  const std::string data_set_;
  DatumReader reader_;
  AnnotatedDatum annotated_;
};

}  // namespace crema::tools
