#include "data/record_db.h"

#include "core/error.h"
#include "core/strings.h"
#include "data/lmdb.h"

namespace crema {
namespace {

class LmdbRecords final : public RecordReader {
 public:
  explicit LmdbRecords(const std::string& path) : reader_(path) {}
  uint64_t count() const override { return reader_.count(); }
  KeyedRecord Next() override {
    const LmdbRecord record = reader_.Next();
    return {record.key, record.value};
  }
  void Seek(uint64_t ordinal) override { reader_.Seek(ordinal); }

 private:
  LmdbReader reader_;
};

class LmdbNewRecords final : public RecordWriter {
 public:
  explicit LmdbNewRecords(const std::string& path) : writer_(path) {}
  LmdbNewRecords(const std::string& path, std::string* last_key) : writer_(path, last_key) {}
  void Put(std::string_view key, std::string_view value) override { writer_.Put(key, value); }
  void Close() override { writer_.Close(); }

 private:
  LmdbWriter writer_;
};

}  // namespace

std::unique_ptr<RecordReader> OpenRecords(const std::string& path) {
  return std::make_unique<LmdbRecords>(path);
}

std::unique_ptr<RecordWriter> CreateRecords(const std::string& path, DataParameter::DB backend) {
  if (backend == DataParameter::LMDB) return std::make_unique<LmdbNewRecords>(path);
  Fail(ErrorCode::kUnsupported, StrCat("no data sets of the kind ", DataParameter::DB_Name(backend),
                                       " can be written by this build; use LMDB"));
}

RecordAppender AppendRecords(const std::string& path, DataParameter::DB backend) {
  if (backend == DataParameter::LMDB) {
    RecordAppender appender;
    appender.writer = std::make_unique<LmdbNewRecords>(path, &appender.last_key);
    return appender;
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("'", path, "' cannot be continued: data sets of the kind ",
              DataParameter::DB_Name(backend), " are written at once; remove it and start again"));
}

}  // namespace crema
