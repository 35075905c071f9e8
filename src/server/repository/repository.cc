#include "server/repository/repository.h"

#include <ranges>
#include <utility>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

// Words that look like paths would tell strangers about the machine.
std::string WithoutPaths(const std::string& text) {
  std::string clean;
  for (const std::string& word : Split(text, ' ')) {
    if (!clean.empty()) clean += ' ';
    clean += word.find('/') == std::string::npos ? word : "(a path)";
  }
  return clean;
}

}  // namespace

Repository::Repository(RepositoryOptions options, LoadExecutable load, ModelTable& table,
                       LogSink& log)
    : options_(std::move(options)), load_(std::move(load)), table_(table), log_(log) {}

Repository::~Repository() { Stop(); }

void Repository::Start() {
  ScanRepository(options_.path);  // a folder that is missing is told before anything runs
  const auto end = std::chrono::steady_clock::now() + options_.first_wait;
  for (;;) {
    {
      const std::lock_guard lock(passes_);
      Pass(true);
      if (!unsettled_ || std::chrono::steady_clock::now() >= end) break;
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
  // Versions that were replaced are destroyed soon, also where the folder is not polled.
  constexpr std::chrono::milliseconds kReap{100};
  auto next = std::chrono::steady_clock::now() + options_.poll;
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kReap, [&] { return stopping_; })) {
    lock.unlock();
    table_.Reap();
    if (options_.poll.count() > 0 && std::chrono::steady_clock::now() >= next) {
      Poll();
      next = std::chrono::steady_clock::now() + options_.poll;
    }
    lock.lock();
  }
}

void Repository::Poll() {
  const std::lock_guard lock(passes_);
  try {
    Pass(true);
  } catch (const Error& error) {
    // The folder is away for a while: what answers goes on.
    if (warned_.insert(error.what()).second) log_.Write(Severity::kWarning, error.what());
  }
}

void Repository::Pass(bool settled_only) {
  const ScannedRepository scanned = ScanRepository(options_.path);
  for (const std::string& warning : scanned.warnings) {
    if (warned_.insert(warning).second) log_.Write(Severity::kWarning, warning);
  }
  unsettled_ = false;
  for (const auto& [model, versions] : scanned.models) {
    if (!unloaded_.contains(model)) Update(model, versions, settled_only);
  }
  // Models that are gone.
  std::vector<std::string> names;
  for (const auto& [model, versions] : known_) names.push_back(model);
  for (const std::string& model : names) {
    if (!scanned.models.contains(model)) Update(model, {}, settled_only);
  }
}

void Repository::Update(const std::string& model, const Versions& found, bool settled_only) {
  std::map<int64_t, Known>& known = known_[model];
  size_t good = 0;
  bool waits = false;
  for (const auto& [number, files] : std::views::reverse(found)) {
    if (good >= options_.keep_versions) {
      Remove(model, number);
      continue;
    }
    Known& state = known[number];
    const bool changed = files.signature != state.loaded && files.signature != state.failed;
    if (changed && (!settled_only || IsSettled(files))) {
      Try(model, number, files);
    } else if (changed) {
      waits = true;
    }
    if (!state.loaded.empty()) ++good;
  }
  unsettled_ |= waits && good == 0;
  std::vector<int64_t> gone;
  for (const auto& [number, state] : known) {
    if (!found.contains(number)) gone.push_back(number);
  }
  for (const int64_t number : gone) Remove(model, number);
  if (known.empty()) known_.erase(model);
}

void Repository::Remove(const std::string& model, int64_t version) {
  table_.Forget(model, version);
  known_[model].erase(version);
}

bool Repository::IsSettled(const VersionFiles& files) const {
  return std::chrono::system_clock::now() - files.changed >= options_.settle;
}

std::string Repository::Reason(const std::exception_ptr& failure) const {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return WithoutPaths(error.problems().front().message);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  } catch (...) {
    return "internal error";
  }
}

bool Repository::Try(const std::string& model, int64_t version, const VersionFiles& files) {
  Known& state = known_[model][version];
  const std::shared_ptr<ModelMetrics> metrics = table_.MetricsOf(model);
  table_.SetLoading(model, version);
  try {
    if (!files.problem.empty()) Fail(ErrorCode::kInvalidArgument, files.problem);
    auto loaded = std::make_shared<ModelVersion>(model, version, load_(model, files),
                                                 options_.batching, metrics);
    table_.Publish(std::move(loaded));
    state = {files.signature, ""};
    metrics->LoadEnded(true);
    log_.Write(Severity::kInfo, StrCat("model ", model, ": version ", version, " is ready"));
    return true;
  } catch (const std::exception& error) {
    state.failed = files.signature;
    table_.SetFailed(model, version, Reason(std::current_exception()));
    metrics->LoadEnded(false);
    log_.Write(Severity::kError,
               StrCat("model ", model, ": version ", version, " cannot be loaded: ", error.what()));
    return false;
  }
}

void Repository::Load(const std::string& model) {
  const std::lock_guard lock(passes_);
  const ScannedRepository scanned = ScanRepository(options_.path);
  const auto found = scanned.models.find(model);
  if (found == scanned.models.end()) {
    Refuse(Cause::kNotFound, StrCat("there is no model '", model, "'"));
  }
  unloaded_.erase(model);
  for (auto& [version, state] : known_[model]) state.failed.clear();  // once more
  Update(model, found->second, false);
  if (table_.ReadyVersions(model).empty()) {
    std::string reasons;
    for (const VersionStatus& row : table_.Status(model)) {
      reasons += StrCat("; version ", row.version, ": ", row.reason);
    }
    Refuse(Cause::kBadRequest, StrCat("model '", model, "' cannot be loaded", reasons));
  }
}

void Repository::Unload(const std::string& model) {
  const std::lock_guard lock(passes_);
  const std::vector<VersionStatus> rows = table_.Status(model);
  unloaded_.insert(model);
  for (const VersionStatus& row : rows) {
    table_.Withdraw(model, row.version, "unloaded");
    known_[model].erase(row.version);
  }
  table_.Reap();
}

}  // namespace crema::server
