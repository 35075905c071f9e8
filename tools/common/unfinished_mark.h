// The file that says that a data set is not complete.
#pragma once

#include <string>

namespace crema::tools {

// "<data set>.unfinished", beside a data set of which records are missing. While one process holds
// it, no other may: two that write one set would break it. Where the file system has no locks,
// nobody is kept off. Thread safety: one thread.
class UnfinishedMark {
 public:
  explicit UnfinishedMark(const std::string& data_set);
  ~UnfinishedMark();  // lets it go, and leaves it there
  UnfinishedMark(const UnfinishedMark&) = delete;
  UnfinishedMark& operator=(const UnfinishedMark&) = delete;

  // Takes hold of it; false where there is none. Throws kIoFailure where another process holds it.
  bool Take() { return Hold(0); }
  // Makes it, or says something else in the one that is held. Throws as Take.
  void Make(const std::string& text);
  // Requires: it is held.
  std::string Text() const;
  void Remove();

 private:
  bool Hold(int flags);
  bool IsStillThere() const;
  void LetGo();

  const std::string data_set_;
  const std::string path_;
  int descriptor_ = -1;
};

}  // namespace crema::tools
