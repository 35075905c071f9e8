#include "data/records/lmdb_environment.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/data_set_folder.h"
#include "format/file.h"

namespace crema {
namespace {

// What LMDB calls EIO where the system took only a part of what it wrote.
int ReasonOfShortWrite(const std::string& path) {
  struct stat file {};
  rlimit limit{};
  if (stat((path + "/data.mdb").c_str(), &file) == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      static_cast<rlim_t>(file.st_size) >= limit.rlim_cur) {
    return EFBIG;
  }
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) == 0 && disk.f_bavail == 0) return ENOSPC;
  return EIO;
}

}  // namespace

void FailLmdb(const std::string& path, const char* doing, int code) {
  if (code == EIO) code = ReasonOfShortWrite(path);
  switch (code) {
    case MDB_INVALID:
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_VERSION_MISMATCH:
    case MDB_BAD_TXN:
      Fail(ErrorCode::kDataLoss, StrCat("'", path, "' is not an LMDB that can be read (",
                                        mdb_strerror(code), "): write the data set again"));
    case MDB_READERS_FULL:
      Fail(ErrorCode::kIoFailure, StrCat("too many processes read '", path, "' at once"));
    case MDB_MAP_RESIZED:
      Fail(ErrorCode::kIoFailure,
           StrCat("'", path,
                  "' has grown since this process began to read it: start again when "
                  "nobody writes there"));
    case EACCES:
    case EPERM:
      Fail(ErrorCode::kIoFailure,
           StrCat("no permission to use the data set '", path, "' while ", doing));
    case EFBIG:
    case ENOSPC:
    case EDQUOT:
      FailWrite(path, code, 0);
    case ENOMEM:
      Fail(ErrorCode::kOutOfMemory, StrCat("no memory left while ", doing, " '", path, "'"));
    default:
      Fail(ErrorCode::kIoFailure, StrCat("'", path, "': ", mdb_strerror(code), " while ", doing));
  }
}

Environment MakeEnvironment(const std::string& path) {
  MDB_env* env = nullptr;
  CheckLmdb(mdb_env_create(&env), path, "starting LMDB");
  return Environment(env);
}

struct stat ExamineLmdbFolder(const std::string& path) {
  struct stat status = ExamineDataSet(path);
  if (!S_ISDIR(status.st_mode)) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", path, "' is an ordinary file; an LMDB is a folder that holds data.mdb"));
  }
  if (stat((path + "/data.mdb").c_str(), &status) != 0) {
    if (errno != ENOENT) FailLmdb(path, "opening it", errno);
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", path, "' is not an LMDB: it holds no data.mdb"));
  }
  if (!S_ISREG(status.st_mode)) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is not a file, so this is no LMDB"));
  }
  if (status.st_size == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is empty: write the data set again"));
  }
  return status;
}

uint64_t BytesInUse(MDB_env* env, const std::string& path) {
  MDB_envinfo info{};
  MDB_stat pages{};
  CheckLmdb(mdb_env_info(env, &info), path, "examining it");
  CheckLmdb(mdb_env_stat(env, &pages), path, "examining it");
  return (uint64_t{info.me_last_pgno} + 1) * pages.ms_psize;
}

void CheckWhole(MDB_env* env, const std::string& path, uint64_t needed) {
  mdb_filehandle_t file = -1;
  struct stat status {};
  CheckLmdb(mdb_env_get_fd(env, &file), path, "examining it");
  if (fstat(file, &status) != 0) FailLmdb(path, "examining it", errno);
  if (static_cast<uint64_t>(status.st_size) < needed) {
    Fail(ErrorCode::kDataLoss, StrCat("'", path, "/data.mdb' is cut short: it has ", status.st_size,
                                      " bytes, ", needed, " are needed; copy or write it again"));
  }
}

}  // namespace crema
