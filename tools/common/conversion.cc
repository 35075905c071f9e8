#include "common/conversion.h"

#include <gflags/gflags.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>

#include "common/interrupt.h"
#include "common/log.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/datum.h"
#include "format/file.h"

DEFINE_bool(resume, false, "[Run] continue a data set that an earlier command left unfinished");

namespace crema::tools {
namespace {

constexpr const char* kCannotGoOn = "data sets of its kind cannot be continued";

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// Returns the first line that differs, as "was ..., is ...".
std::string Difference(const std::string& before, const std::string& now) {
  const std::vector<std::string> old_lines = Split(before, '\n');
  const std::vector<std::string> new_lines = Split(now, '\n');
  for (size_t i = 0; i < std::max(old_lines.size(), new_lines.size()); ++i) {
    const std::string old_line = i < old_lines.size() ? old_lines[i] : "";
    const std::string new_line = i < new_lines.size() ? new_lines[i] : "";
    if (old_line != new_line) return StrCat("it was '", old_line, "', now it is '", new_line, "'");
  }
  return "";
}

}  // namespace

bool ResumeOfFlag() { return FLAGS_resume; }

uint64_t NumberAfter(const std::string& key) {
  uint64_t number = 0;
  if (key.empty()) return 0;
  std::from_chars(key.data(), key.data() + key.size(), number);
  return number + 1;
}

Conversion::Conversion(Options options) : options_(std::move(options)), mark_(options_.path) {
  CatchInterrupt();
  Open();
}

void Conversion::Open() {
  const bool unfinished = mark_.Take();
  const bool there = Exists(options_.path);
  if (there && unfinished) CheckUnfinished();
  if (there && !unfinished) {
    if (options_.resume) return;  // the data set is complete
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", options_.path, "' exists already; choose another path"));
  }
  if (there) {
    RecordAppender appender =
        options_.append ? options_.append() : AppendRecords(options_.path, options_.backend);
    writer_ = std::move(appender.writer);
    last_key_ = std::move(appender.last_key);
    resumed_ = true;
    return;
  }
  if (unfinished) RemoveAbandoned(options_.path);  // an incomplete archive
  // Created before the data set, so that an unfinished one always has its mark.
  mark_.Make(options_.origin);
  try {
    writer_ = options_.create ? options_.create() : CreateRecords(options_.path, options_.backend);
  } catch (...) {
    mark_.Remove();
    throw;
  }
}

bool Conversion::CanContinue() const {
  return options_.create ? options_.append != nullptr : options_.backend != DataParameter::TAR;
}

void Conversion::CheckUnfinished() const {
  // Other flags may have selected a format that cannot be continued.
  if (options_.resume && options_.create) CheckOrigin();
  if (!CanContinue()) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", options_.path, "' was left unfinished, and ",
                                             kCannotGoOn, ": remove it and start again"));
  }
  if (!options_.resume) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", options_.path, "' was left unfinished: continue with --resume, or remove it"));
  }
  CheckOrigin();
}

void Conversion::CheckOrigin() const {
  const std::string before = mark_.Text();
  if (before == options_.origin) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", options_.path,
              "' was begun from something else: ", Difference(before, options_.origin),
              "; continue with the same files and flags, or remove the data set"));
}

Conversion::~Conversion() {
  if (writer_ == nullptr) return;
  if (progress_ != nullptr) progress_->Clear();
  const bool keep = options_.keep_on_error && written_ > 0;
  if (!resumed_ && !keep) {
    writer_.reset();
    mark_.Remove();
    return;
  }
  try {
    writer_->Close();
    LogEvent(Severity::kWarning,
             StrCat("'", options_.path, "' keeps the ", written_, " ", options_.unit,
                    " that were written before the error; ",
                    CanContinue() ? "--resume continues after them" : kCannotGoOn),
             {});
  } catch (const std::exception&) {  // report the first error only
    writer_.reset();
    if (!Exists(options_.path)) mark_.Remove();
  }
}

void Conversion::StartFrom(uint64_t items) { done_before_ = items; }

ProgressLine& Conversion::progress() {
  if (progress_ == nullptr) {
    progress_ = std::make_unique<ProgressLine>(ProgressLine::Options{
        .unit = options_.unit, .total = options_.total, .done = done_before_});
  }
  return *progress_;
}

void Conversion::Put(std::string_view key, std::string_view value) {
  if (key <= last_key_ && !last_key_.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the key '", PrintableKey(key), "' is not after '", PrintableKey(last_key_),
                "', the last one of '", options_.path, "'"));
  }
  writer_->Put(key, value);
  ++written_;
  progress().Add();
}

void Conversion::Skip(const std::string& reason) {
  ++skipped_;
  progress().Warn("skipped: " + reason);
  progress().Add();
}

std::string Conversion::Summary() const {
  return StrCat("Wrote ", written_, " ", options_.unit, " to ", options_.path,
                skipped_ > 0 ? StrCat("; skipped ", skipped_) : "");
}

int Conversion::Finish(bool all) {
  progress().Clear();
  if (!all && written_ == 0 && !resumed_) {
    writer_.reset();
    mark_.Remove();
    WriteToStderr("stopped before the first record: nothing was written\n");
    return ExitCode(ErrorCode::kCancelled);
  }
  if (all && written_ == 0 && last_key_.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("none of the ", skipped_, " ", options_.unit,
                                      " can be used, so there is nothing to write"));
  }
  writer_->Close();
  writer_.reset();
  if (all) {
    mark_.Remove();
    return 0;
  }
  const std::string of_total = options_.total > 0 ? StrCat(" of ", options_.total) : "";
  WriteToStderr(StrCat("stopped: '", options_.path, "' is whole so far, with ",
                       done_before_ + written_ + skipped_, of_total, " ", options_.unit, " done; ",
                       CanContinue() ? "--resume continues" : kCannotGoOn, "\n"));
  return ExitCode(ErrorCode::kCancelled);
}

}  // namespace crema::tools
