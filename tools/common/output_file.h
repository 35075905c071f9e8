// One rule for the files and folders that commands write (docs/data_sets.md, "Files that exist").
#pragma once

#include <sys/types.h>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/flag_table.h"
#include "format/file.h"

namespace crema::tools {

// Throws kIoFailure if `path` cannot be written. Leaves no file.
inline void CheckOutputFile(const std::string& path) { const AtomicFile probe(path); }

// Files that a command reads, and so must not write over. Thread safety: const methods.
class ProtectedFiles {
 public:
  // Ignores missing paths and paths that are not files.
  explicit ProtectedFiles(const std::vector<std::string>& paths);

  // Throws kInvalidArgument if `output` is one of the files, by any path or link, or if it exists
  // and holds another kind of file than what is written. `name` is the flag, without dashes, or
  // the placeholder of the argument, such as OUTPUT. `extension`, such as ".csv", says what is
  // written; without it, that of `output` does.
  void RefuseToReplace(const std::string& name, const std::string& output,
                       std::string_view extension = {}) const;

 private:
  std::set<std::pair<dev_t, ino_t>> files_;
};

// Applies the rule to the output flags of a command: placeholders that begin with FILE, as in
// FILE.csv, or FOLDER. Files that a flag or an argument names count as read. Throws
// kInvalidArgument, also if two outputs are one file, or a folder is a data set.
void CheckOutputFlags(const std::vector<FlagEntry>& flags,
                      const std::vector<std::string>& arguments);

}  // namespace crema::tools
