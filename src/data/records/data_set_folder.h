// Folders that hold a data set.
#pragma once

#include <sys/stat.h>

#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace crema {

// What lies at `path`. Throws kNotFound (naming a similar path, if there is one), kIoFailure.
struct stat ExamineDataSet(const std::string& path);

// Makes the folder of a new data set. Throws kInvalidArgument where `path` exists, kIoFailure.
void MakeDataSetFolder(const std::string& path);

// One user's share of something that a process may open only once: databases whose locks belong to
// the process. As the locks do, so does the table of what is open; it closes with its last user.
// `Handle` is a unique_ptr. Thread safety: any thread.
template <typename Handle>
class SharedHandle {
 public:
  using Identity = std::pair<dev_t, ino_t>;  // one file may have several paths

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
