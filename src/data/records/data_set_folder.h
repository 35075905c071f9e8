// Folders with a data set.
#pragma once

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace crema {

// Returns the status of `path`. Throws kNotFound (suggesting a similar path), kIoFailure.
struct stat ExamineDataSet(const std::string& path);

// Creates the folder of a new data set. Throws kInvalidArgument if `path` exists, kIoFailure.
void MakeDataSetFolder(const std::string& path);

// Shared access to a database that a process may open only once, because its locks belong to the
// process. The table of open databases is global for the same reason; an entry ends with its last
// user. `Handle` is a unique_ptr. Thread safety: any thread.
template <typename Handle>
class SharedHandle {
 public:
  using Identity = std::pair<dev_t, ino_t>;  // identifies a file with several paths

  template <typename Open>
  SharedHandle(const struct stat& status, Open&& open) : identity_(status.st_dev, status.st_ino) {
    Table& table = Instance();
    const std::lock_guard lock(table.mutex);
    auto found = table.entries.find(identity_);
    if (found == table.entries.end()) {
      found = table.entries.emplace(identity_, Entry{open()}).first;
    }
    ++found->second.users;
    handle_ = found->second.handle.get();
  }
  ~SharedHandle() {
    Table& table = Instance();
    const std::lock_guard lock(table.mutex);
    const auto found = table.entries.find(identity_);
    if (--found->second.users == 0) table.entries.erase(found);
  }
  SharedHandle(const SharedHandle&) = delete;
  SharedHandle& operator=(const SharedHandle&) = delete;

  auto* get() const { return handle_; }

 private:
  struct Entry {
    Handle handle;
    int users = 0;
  };
  struct Table {
    std::mutex mutex;
    std::map<Identity, Entry> entries;
  };
  static Table& Instance() {
    static Table table;
    return table;
  }

  const Identity identity_;
  typename Handle::pointer handle_ = nullptr;
};

}  // namespace crema
