#include "server/repository/repository.h"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr const char* kUnloaded = "unloaded";

// Removes words that look like paths, which would reveal details of the machine.
std::string WithoutPaths(const std::string& text) {
  std::string clean;
  for (const std::string& word : Split(text, ' ')) {
    if (!clean.empty()) clean += ' ';
    clean += word.find('/') == std::string::npos ? word : "(a path)";
  }
  return clean;
}

std::string Reason(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return WithoutPaths(error.problems().front().message);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (const std::system_error&) {
    return "the system refused";
  } catch (...) {
    return "internal error";
  }
}

// Returns true for a failure that may be temporary, so that the same files may load later.
bool MayPass(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kIoFailure || error.code() == ErrorCode::kOutOfMemory ||
           error.code() == ErrorCode::kDeviceFailure;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error&) {
    return true;  // for example no thread available
  } catch (...) {
    return false;
  }
}

}  // namespace

bool Repository::Known::IsNews(const VersionFiles& files) const {
  if (files.signature == loaded) return false;
  return files.signature != failed || (wait.count() > 0 && Clock::now() >= retry);
}

Repository::Repository(RepositoryOptions options, LoadExecutable load, ModelTable& table,
                       LogSink& log)
    : options_(std::move(options)), load_(std::move(load)), table_(table), log_(log) {}

Repository::~Repository() { Stop(); }

void Repository::Start() {
  ScanRepository(options_.path);  // reports a missing folder before anything starts
  std::optional<Clock::time_point> first;
  for (;;) {
    {
      const std::lock_guard lock(passes_);
      Pass(true);
      if (!first) first = look_;
      if (!unsettled_ || look_ - *first >= options_.first_wait) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  thread_ = std::thread([this] { Watch(); });
}

void Repository::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Repository::Watch() {
  // Destroys replaced versions soon, even if the folder is not polled.
  constexpr std::chrono::milliseconds kReap{100};
  auto next = std::chrono::steady_clock::now() + options_.poll;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kReap, [&] { return stopping_; })) {
    lock.unlock();
    try {
      table_.Reap();
      if (options_.poll.count() > 0 && std::chrono::steady_clock::now() >= next) {
        Poll();
        next = std::chrono::steady_clock::now() + options_.poll;
      }
    } catch (const std::bad_alloc&) {
      // Retried in the next iteration.
    }
    lock.lock();
  }
}

void Repository::Poll() {
  const std::lock_guard lock(passes_);
  try {
    Pass(true);
  } catch (const std::exception& error) {
    // The folder is temporarily unavailable, or memory is short: loaded versions stay in use.
    Warn({error.what()});
  }
}

void Repository::Warn(std::vector<std::string> warnings) {
  for (const std::string& warning : warnings) {
    if (std::ranges::find(warned_, warning) == warned_.end()) {
      log_.Write(Severity::kWarning, warning);
    }
  }
  warned_ = std::move(warnings);
}

void Repository::Pass(bool settled_only) {
  look_ = Clock::now();
  const ScannedRepository scanned = ScanRepository(options_.path);
  warnings_ = scanned.warnings;
  unsettled_ = false;
  for (const auto& [model, versions] : scanned.models) {
    if (unloaded_.contains(model)) {
      KeepUnloaded(model, versions);
    } else {
      Update(model, versions, settled_only);
    }
  }
  std::set<std::string> names;
  for (const auto& [model, versions] : known_) names.insert(model);
  for (const VersionStatus& row : table_.Status()) names.insert(row.model);
  for (const std::string& model : names) {
    if (!scanned.models.contains(model) && !scanned.unknown.contains(model)) {
      ForgetMissing(model, {});
    }
  }
  Warn(std::move(warnings_));
}

void Repository::KeepUnloaded(const std::string& model, const Versions& found) {
  ForgetMissing(model, found);
  for (const auto& [number, files] : found) List(model, number, kUnloaded);
}

void Repository::List(const std::string& model, int64_t version, const std::string& reason) {
  const std::vector<int64_t> listed = table_.Versions(model);
  if (std::ranges::find(listed, version) == listed.end()) table_.Withdraw(model, version, reason);
}

void Repository::ForgetMissing(const std::string& model, const Versions& found) {
  std::vector<int64_t> versions = table_.Versions(model);
  const auto known = known_.find(model);
  if (known != known_.end()) {
    for (const auto& [number, state] : known->second) versions.push_back(number);
  }
  for (const int64_t number : versions) {
    if (!found.contains(number)) Remove(model, number);
  }
  if (known != known_.end() && known->second.empty()) known_.erase(known);
}

void Repository::Update(const std::string& model, const Versions& found, bool settled_only) {
  std::map<int64_t, Known>& known = known_[model];
  size_t good = 0;
  bool waits = false;
  for (auto newest = found.rbegin(); newest != found.rend(); ++newest) {
    const auto& [number, files] = *newest;
    if (good >= options_.keep_versions) {
      Remove(model, number);
      continue;
    }
    Known& state = known[number];
    const bool changed = state.IsNews(files) && !(files.unknown && !state.loaded.empty());
    if (changed && (!settled_only || IsSettled(files, &state))) {
      state.waits_since.reset();
      Try(model, number, files);
    } else if (changed) {
      waits = true;
      List(model, number, kUnsettledFiles);
      WarnOfWaiting(model, number, &state);
    } else {
      state.waits_since.reset();
    }
    if (!state.loaded.empty()) ++good;
  }
  unsettled_ |= waits && good == 0;
  ForgetMissing(model, found);
}

void Repository::Remove(const std::string& model, int64_t version) {
  table_.Forget(model, version);
  const auto known = known_.find(model);
  if (known != known_.end()) known->second.erase(version);
}

bool Repository::IsSettled(const VersionFiles& files, Known* state) const {
  if (files.signature != state->seen) {
    state->seen = files.signature;
    state->since = look_;
  }
  return look_ - state->since >= options_.settle;
}

void Repository::WarnOfWaiting(const std::string& model, int64_t version, Known* state) {
  if (!state->waits_since) state->waits_since = look_;
  if (look_ - *state->waits_since < options_.first_wait) return;
  warnings_.push_back(StrCat("model ", model, ": version ", version,
                             " is not loaded yet: its files keep changing, or --settle_seconds is "
                             "too long; it is loaded when they stay the same for ",
                             options_.settle.count(), " ms"));
}

void Repository::Failed(const VersionFiles& files, bool passes, Known* state) const {
  constexpr std::chrono::milliseconds kLongest{60000};
  const bool again = state->failed == files.signature && state->wait.count() > 0;
  state->failed = files.signature;
  state->wait = std::chrono::milliseconds(0);
  if (!passes) return;
  state->wait = again ? std::min(2 * state->wait, kLongest) : options_.first_retry;
  state->retry = Clock::now() + state->wait;
}

void Repository::Try(const std::string& model, int64_t version, const VersionFiles& files) {
  Known& state = known_[model][version];
  const std::shared_ptr<ModelMetrics> metrics = table_.MetricsOf(model);
  table_.SetLoading(model, version);
  try {
    if (!files.problem.empty()) Fail(ErrorCode::kInvalidArgument, files.problem);
    auto loaded = std::make_shared<ModelVersion>(model, version, load_(model, files),
                                                 options_.batching, metrics);
    const std::string line = ReadyLine(*loaded);
    table_.Publish(std::move(loaded));
    state = {};
    state.loaded = files.signature;
    metrics->LoadEnded(true);
    log_.Write(Severity::kInfo, line);
  } catch (const std::exception& error) {
    const std::exception_ptr failure = std::current_exception();
    Failed(files, MayPass(failure), &state);
    table_.SetFailed(model, version, Reason(failure));
    metrics->LoadEnded(false);
    const std::string again =
        state.wait.count() == 0 ? "" : StrCat("; tried again in ", state.wait.count(), " ms");
    log_.Write(Severity::kError, StrCat("model ", model, ": version ", version,
                                        " cannot be loaded: ", error.what(), again));
  }
}

void Repository::Load(const std::string& model) {
  const std::lock_guard lock(passes_);
  const ScannedRepository scanned = ScanRepository(options_.path);
  if (scanned.unknown.contains(model)) {
    Refuse(Cause::kUnavailable, StrCat("the folder of model '", model, "' cannot be read now"));
  }
  const auto found = scanned.models.find(model);
  if (found == scanned.models.end()) {
    Refuse(Cause::kNotFound, StrCat("there is no model '", model, "'"));
  }
  unloaded_.erase(model);
  for (auto& [version, state] : known_[model]) state.failed.clear();  // forces another attempt
  Update(model, found->second, false);
  RefuseFailed(model);
}

void Repository::RefuseFailed(const std::string& model) const {
  std::string reasons;
  const std::vector<VersionStatus> rows = table_.Status(model);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {  // newest first
    if (!row->reason.empty()) reasons += StrCat("; version ", row->version, ": ", row->reason);
  }
  if (reasons.empty()) return;
  const std::vector<int64_t> ready = table_.ReadyVersions(model);
  if (!ready.empty()) reasons += StrCat("; version ", ready.back(), " answers");
  Refuse(Cause::kBadRequest, StrCat("model '", model, "' cannot be loaded", reasons));
}

void Repository::Unload(const std::string& model) {
  const std::lock_guard lock(passes_);
  const std::vector<VersionStatus> rows = table_.Status(model);
  unloaded_.insert(model);
  for (const VersionStatus& row : rows) table_.Withdraw(model, row.version, kUnloaded);
  known_.erase(model);
  table_.Reap();
}

}  // namespace crema::server
