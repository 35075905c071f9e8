// Marks a data set as incomplete.
#pragma once

#include <string>

namespace crema::tools {

// "<data set>.unfinished", next to an incomplete data set. Locked by the process that writes the
// data set, so that no second one can. Without effect on file systems without locks. Thread safety:
// one thread.
class UnfinishedMark {
 public:
  explicit UnfinishedMark(const std::string& data_set);
  ~UnfinishedMark();  // releases the lock and keeps the file
  UnfinishedMark(const UnfinishedMark&) = delete;
  UnfinishedMark& operator=(const UnfinishedMark&) = delete;

  // Locks the mark; false if there is none. Throws kIoFailure if another process holds it.
  bool Take() { return Hold(0); }
  // Creates the mark, or replaces the text of the one held. Throws like Take.
  void Make(const std::string& text);
  // Requires: the mark is held.
  std::string Text() const;
  void Remove();

 private:
  bool Hold(int flags);
  bool Exists() const;
  void Release();

  const std::string data_set_;
  const std::string path_;
  int descriptor_ = -1;
};

}  // namespace crema::tools
