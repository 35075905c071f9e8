// A data set in the making: progress, Ctrl-C, and going on later.
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

// While records are missing, "<path>.unfinished" stands beside the data set. It says what the
// records are made from and how, so that --resume does not go on with something else.
// Ctrl-C, or an error after which something is worth keeping, leaves a data set that can be read.
// Tar shards cannot be continued; what a killed command left of an archive is removed by the next.
// Thread safety: one thread at a time.
class Conversion {
 public:
  struct Options {
    std::string path;
    DataParameter::DB backend = DataParameter::LMDB;
    // In place of those of record_db.h for `backend`; without `append` it cannot be continued.
    std::function<std::unique_ptr<RecordWriter>()> create = {};
    std::function<RecordAppender()> append = {};
    bool resume = false;
    std::string origin;           // what the records are made from and how; lines of text
    bool keep_on_error = false;   // else an error removes what this command wrote
    std::string unit = "images";  // what people call the records
    uint64_t total = 0;           // records; 0: not known
  };
  // Catches Ctrl-C from here on. Throws kInvalidArgument where the data set exists and may not be
  // continued, kIoFailure where another process is writing it, and what CreateRecords and
  // AppendRecords throw.
  explicit Conversion(Options options);
  ~Conversion();
  Conversion(const Conversion&) = delete;
  Conversion& operator=(const Conversion&) = delete;

  // With --resume, the data set was finished before: there is nothing to do.
  bool complete() const { return writer_ == nullptr; }
  // Key of the last record of an earlier command; empty: none.
  const std::string& last_key() const { return last_key_; }
  // `items` of the total were done by an earlier command, as last_key() says.
  void StartFrom(uint64_t items);

  // Keys ascend. Throws what RecordWriter::Put throws.
  void Put(std::string_view key, std::string_view value);
  // One item less to do, without a record; `reason` is a warning.
  void Skip(const std::string& reason);
  // About an item; counts nothing.
  void Warn(const std::string& text) { progress().Warn(text); }
  uint64_t written() const { return written_; }  // records of this command
  // "Wrote 10 images to train_lmdb; skipped 2", of this command.
  std::string Summary() const;

  // Ends it. `all` is false when Interrupted() was the reason to stop. Returns the exit code:
  // 0, or 130 with a message about what there is. Throws kDataLoss when all were skipped.
  int Finish(bool all);

 private:
  void Open();
  bool CanGoOn() const;
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

// What --resume says.
bool ResumeOfFlag();

// The number behind the one that a key begins with; 0 for an empty key.
uint64_t NumberBehind(const std::string& key);

}  // namespace crema::tools
