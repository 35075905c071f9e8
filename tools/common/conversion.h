// Creates a data set with progress, Ctrl-C and resuming.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "common/progress_line.h"
#include "common/unfinished_mark.h"
#include "crema.pb.h"
#include "data/records/record_db.h"

namespace crema::tools {

// While the data set is incomplete, "<path>.unfinished" exists next to it. It records origin and
// options of the records, so that --resume cannot continue with others. After Ctrl-C, or after an
// error with keep_on_error, the data set is readable. Tar shards cannot be continued; the next
// command removes an archive left by a killed one. Thread safety: one thread at a time.
class Conversion {
 public:
  struct Options {
    std::string path;
    DataParameter::DB backend = DataParameter::LMDB;
    // Replaces CreateRecords and AppendRecords for `backend`; without `append` it cannot be
    // continued.
    std::function<std::unique_ptr<RecordWriter>()> create = {};
    std::function<RecordAppender()> append = {};
    bool resume = false;
    std::string origin;           // origin and options of the records; lines of text
    bool keep_on_error = false;   // false: an error removes what this command wrote
    std::string unit = "images";  // name of the items, in the plural
    uint64_t total = 0;           // records; 0: unknown
  };
  // Handles Ctrl-C from here on. Throws kInvalidArgument if the data set exists and may not be
  // continued, kIoFailure if another process is writing it, and what CreateRecords and
  // AppendRecords throw.
  explicit Conversion(Options options);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  // Returns true if --resume found a finished data set: nothing to do.
  bool complete() const { return writer_ == nullptr; }
  // Key of the last record of an earlier command; empty if there is none.
  const std::string& last_key() const { return last_key_; }
  // An earlier command finished `items` of the total, as last_key() says.
  void StartFrom(uint64_t items);

  // Requires: ascending keys. Throws what RecordWriter::Put throws.
  void Put(std::string_view key, std::string_view value);
  // Counts an item without a record; logs `reason` as a warning.
  void Skip(const std::string& reason);
  // Warns about an item without counting it.
  void Warn(const std::string& text) { progress().Warn(text); }
  uint64_t written() const { return written_; }  // records of this command
  // Returns "Wrote 10 images to train_lmdb; skipped 2", for this command.
  std::string Summary() const;

  // Finishes the data set. `all` is false after Interrupted(). Returns the exit code: 0, or 130
  // with a message about the state. Throws kDataLoss if all items were skipped.
  int Finish(bool all);

 private:
  void Open();
  bool CanContinue() const;
  void CheckUnfinished() const;
  void CheckOrigin() const;
  ProgressLine& progress();

  const Options options_;
  UnfinishedMark mark_;
  std::unique_ptr<RecordWriter> writer_;
  std::string last_key_;
  bool resumed_ = false;
  uint64_t done_before_ = 0;
  uint64_t written_ = 0;
  uint64_t skipped_ = 0;
  std::unique_ptr<ProgressLine> progress_;
};

// Returns the value of --resume.
bool ResumeOfFlag();

// Returns the successor of the number that a key begins with; 0 for an empty key.
uint64_t NumberAfter(const std::string& key);

}  // namespace crema::tools
