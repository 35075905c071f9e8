#include "data/records/record_db.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/data_set_folder.h"
#include "data/records/hdf5_records.h"
#include "data/records/leveldb.h"
#include "data/records/lmdb.h"
#include "data/records/tar_shards.h"

namespace crema {
namespace {

class LmdbRecords final : public RecordReader {
 public:
  explicit LmdbRecords(LmdbReader reader) : reader_(std::move(reader)) {}

  uint64_t count() const override { return reader_.count(); }
  KeyedRecord Next() override { return ToKeyed(reader_.Next()); }
  void Seek(uint64_t ordinal) override { reader_.Seek(ordinal); }
  void Skip(uint64_t records) override { reader_.Skip(records); }
  KeyedRecord At(uint64_t ordinal) override { return ToKeyed(reader_.At(ordinal)); }
  bool persistent() const override { return true; }
  std::unique_ptr<RecordReader> Clone() const override {
    return std::make_unique<LmdbRecords>(reader_.Clone());
  }

 private:
  static KeyedRecord ToKeyed(const LmdbRecord& record) { return {record.key, record.value}; }

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

bool LooksLikeLevelDb(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path + "/CURRENT", ignored);
}

// Returns true for a folder with HDF5 files but without their list.
bool HoldsHdf5Files(const std::string& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       Advance(entry, error)) {
    const std::string extension = entry->path().extension().string();
    if (extension == ".h5" || extension == ".hdf5") return true;
  }
  return false;
}

// An HDF5 file is not a data set of records, but can be converted.
void RefuseHdf5(const std::string& path) {
  if (LooksLikeHdf5Records(path)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path,
                "' is HDF5 and no data set of records: nets read it with the layer HDF5Data, and "
                "`convert_db ",
                path, " OUTPUT` makes records of it"));
  }
  if (HoldsHdf5Files(path)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", path,
                "' holds HDF5 files and no data set of records: write their paths to a list, one a "
                "line; nets read that with the layer HDF5Data, and `convert_db LIST OUTPUT` makes "
                "records of it"));
  }
}

}  // namespace

#ifndef CREMA_HAVE_LEVELDB
std::unique_ptr<RecordReader> OpenLevelDb(const std::string& path) {
  Fail(ErrorCode::kUnsupported,
       StrCat("'", path,
              "' is a LevelDB, and this program was built without it: build with "
              "CREMA_LEVELDB=ON, or convert the data set to LMDB and set `backend: LMDB`"),
       {.field = "data_param.backend"});
}

std::unique_ptr<RecordWriter> CreateLevelDb(const std::string& path) {
  Fail(ErrorCode::kUnsupported, StrCat("'", path,
                                       "' cannot be a LevelDB, since this program was built "
                                       "without it: build with CREMA_LEVELDB=ON, or use LMDB"));
}

RecordAppender AppendLevelDb(const std::string& path) {
  CreateLevelDb(path);
  return {};
}
#endif

std::unique_ptr<RecordReader> OpenRecords(const std::string& path) {
  if (LooksLikeLmdb(path)) return std::make_unique<LmdbRecords>(LmdbReader(path));
  if (LooksLikeLevelDb(path)) return OpenLevelDb(path);
  if (LooksLikeTarShards(path)) return OpenTarShards(path);
  const struct stat status = ExamineDataSet(path);
  if (faccessat(AT_FDCWD, path.c_str(), R_OK, AT_EACCESS) != 0) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the data set '", path, "' cannot be read: ", std::strerror(errno)));
  }
  if (!S_ISDIR(status.st_mode) && !S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is a pipe or a device and no data set"));
  }
  RefuseHdf5(path);
  if (!S_ISDIR(status.st_mode)) {
    const std::filesystem::path file(path);
    if (file.filename() == "data.mdb") {
      Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is a file in an LMDB: name its folder, '",
                                        file.parent_path().string(), "'"));
    }
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path,
                "' is an ordinary file and no tar archive; data sets are LMDB or "
                "LevelDB folders or tar shards"));
  }
  Fail(
      ErrorCode::kDataLoss,
      StrCat("the folder '", path,
             "' is not a data set: it holds neither data.mdb (LMDB) nor CURRENT (LevelDB) nor .tar "
             "files"));
}

std::unique_ptr<RecordWriter> CreateRecords(const std::string& path, DataParameter::DB backend) {
  switch (backend) {
    case DataParameter::LMDB:
      return std::make_unique<LmdbNewRecords>(path);
    case DataParameter::LEVELDB:
      return CreateLevelDb(path);
    case DataParameter::TAR:
      return CreateTarShards(path);
  }
  Fail(ErrorCode::kUnsupported,
       StrCat("no data sets of the kind ", static_cast<int>(backend), " can be written; use LMDB"));
}

RecordAppender AppendRecords(const std::string& path, DataParameter::DB backend) {
  if (backend == DataParameter::LMDB) {
    RecordAppender appender;
    appender.writer = std::make_unique<LmdbNewRecords>(path, &appender.last_key);
    return appender;
  }
  if (backend == DataParameter::LEVELDB) return AppendLevelDb(path);
  Fail(ErrorCode::kUnsupported,
       StrCat("'", path, "' cannot be continued: data sets of the kind ",
              DataParameter::DB_Name(backend), " are written at once; remove it and start again"));
}

}  // namespace crema
