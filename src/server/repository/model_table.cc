#include "server/repository/model_table.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

template <typename Models>
[[noreturn]] void RefuseUnknown(const Models& models, std::string_view model) {
  std::vector<std::string> names;
  for (const auto& [name, entry] : models) names.push_back(name);
  Refuse(Cause::kNotFound, StrCat("there is no model '", model, "'", DidYouMean(model, names),
                                  "; GET /v1/models lists the models"));
}

std::string Because(const std::string& reason) {
  return reason.empty() ? reason : StrCat(": ", reason);
}

}  // namespace

std::string_view ToString(VersionState state) {
  if (state == VersionState::kLoading) return "LOADING";
  return state == VersionState::kReady ? "READY" : "UNAVAILABLE";
}

ModelTable::~ModelTable() = default;

std::shared_ptr<ModelVersion> ModelTable::Find(std::string_view model, int64_t version) const {
  const std::shared_lock lock(mutex_);
  const auto entry = models_.find(model);
  if (entry == models_.end()) RefuseUnknown(models_, model);
  const auto& versions = entry->second.versions;
  if (version == 0) {
    for (auto newest = versions.rbegin(); newest != versions.rend(); ++newest) {
      if (newest->second.loaded) return newest->second.loaded;
    }
    Refuse(Cause::kUnavailable,
           StrCat("no version of model '", model, "' is ready",
                  versions.size() == 1 ? Because(versions.begin()->second.reason) : std::string()));
  }
  const auto slot = versions.find(version);
  if (slot == versions.end()) {
    Refuse(Cause::kNotFound, StrCat("model '", model, "' has no version ", version));
  }
  if (!slot->second.loaded) {
    Refuse(Cause::kUnavailable, StrCat("version ", version, " of model '", model, "' is not ready",
                                       Because(slot->second.reason)));
  }
  return slot->second.loaded;
}

std::vector<VersionStatus> ModelTable::Status(std::string_view model) const {
  const std::shared_lock lock(mutex_);
  if (!model.empty() && !models_.contains(model)) {
    RefuseUnknown(models_, model);
  }
  std::vector<VersionStatus> rows;
  for (const auto& [name, entry] : models_) {
    if (!model.empty() && name != model) continue;
    for (const auto& [version, slot] : entry.versions) {
      rows.push_back({name, version, slot.state, slot.reason});
    }
  }
  return rows;
}

std::vector<int64_t> ModelTable::Versions(std::string_view model) const {
  const std::shared_lock lock(mutex_);
  std::vector<int64_t> versions;
  const auto entry = models_.find(model);
  if (entry == models_.end()) return versions;
  for (const auto& [version, slot] : entry->second.versions) versions.push_back(version);
  return versions;
}

std::vector<int64_t> ModelTable::ReadyVersions(std::string_view model) const {
  const std::shared_lock lock(mutex_);
  std::vector<int64_t> versions;
  const auto entry = models_.find(model);
  if (entry == models_.end()) return versions;
  for (const auto& [version, slot] : entry->second.versions) {
    if (slot.loaded) versions.push_back(version);
  }
  return versions;
}

std::vector<std::shared_ptr<ModelVersion>> ModelTable::AllReady() const {
  const std::shared_lock lock(mutex_);
  std::vector<std::shared_ptr<ModelVersion>> all;
  for (const auto& [name, entry] : models_) {
    for (const auto& [version, slot] : entry.versions) {
      if (slot.loaded) all.push_back(slot.loaded);
    }
  }
  return all;
}

ModelTable::Entry& ModelTable::EntryOf(const std::string& model) {
  Entry& entry = models_[model];
  if (!entry.metrics) entry.metrics = metrics_.ForModel(model);
  return entry;
}

std::shared_ptr<ModelMetrics> ModelTable::MetricsOf(const std::string& model) {
  const std::unique_lock lock(mutex_);
  return EntryOf(model).metrics;
}

void ModelTable::UpdateMetrics(const Entry& entry) {
  int64_t newest = 0;
  int64_t bad = 0;
  for (const auto& [version, slot] : entry.versions) {
    if (slot.loaded) newest = version;
    if (slot.failed) ++bad;
  }
  entry.metrics->SetVersion(newest);
  entry.metrics->SetBadVersions(bad);
}

void ModelTable::SetLoading(const std::string& model, int64_t version) {
  const std::unique_lock lock(mutex_);
  Slot& slot = EntryOf(model).versions[version];
  if (!slot.loaded) slot.state = VersionState::kLoading;
}

void ModelTable::SetFailed(const std::string& model, int64_t version, const std::string& reason) {
  const std::unique_lock lock(mutex_);
  Entry& entry = EntryOf(model);
  Slot& slot = entry.versions[version];
  slot.reason = reason;
  slot.failed = true;
  slot.state = slot.loaded ? VersionState::kReady : VersionState::kUnavailable;
  UpdateMetrics(entry);
}

void ModelTable::Publish(std::shared_ptr<ModelVersion> version) {
  const std::unique_lock lock(mutex_);
  Entry& entry = EntryOf(version->model());
  Slot& slot = entry.versions[version->version()];
  Retire(&slot.loaded);
  slot = {VersionState::kReady, "", false, std::move(version)};
  UpdateMetrics(entry);
}

void ModelTable::Withdraw(const std::string& model, int64_t version, const std::string& reason) {
  const std::unique_lock lock(mutex_);
  Entry& entry = EntryOf(model);
  Slot& slot = entry.versions[version];
  std::string copy = reason;
  Retire(&slot.loaded);
  slot = {VersionState::kUnavailable, std::move(copy), false, nullptr};
  UpdateMetrics(entry);
}

void ModelTable::Forget(const std::string& model, int64_t version) {
  const std::unique_lock lock(mutex_);
  const auto entry = models_.find(model);
  if (entry == models_.end()) return;
  const auto slot = entry->second.versions.find(version);
  if (slot == entry->second.versions.end()) return;
  Retire(&slot->second.loaded);
  entry->second.versions.erase(slot);
  UpdateMetrics(entry->second);  // also without versions: one still answering keeps the series
  if (entry->second.versions.empty()) models_.erase(entry);
}

void ModelTable::Retire(std::shared_ptr<ModelVersion>* version) {
  if (*version) retired_.push_back(*version);  // still available if this throws
  version->reset();
}

size_t ModelTable::Reap() {
  std::vector<std::shared_ptr<ModelVersion>> unused;
  size_t left = 0;
  {
    const std::unique_lock lock(mutex_);
    // Nobody else can obtain these pointers, so a use count of one is final.
    const auto used = std::stable_partition(
        retired_.begin(), retired_.end(),
        [](const std::shared_ptr<ModelVersion>& version) { return version.use_count() > 1; });
    unused.assign(std::make_move_iterator(used), std::make_move_iterator(retired_.end()));
    retired_.erase(used, retired_.end());
    left = retired_.size();
  }
  if (!unused.empty()) {
    unused.clear();  // slow: answers the waiting requests
    malloc_trim(0);
  }
  return left;
}

void ModelTable::Clear() {
  std::vector<std::shared_ptr<ModelVersion>> all;
  {
    const std::unique_lock lock(mutex_);
    all.swap(retired_);
    for (auto& [name, entry] : models_) {
      for (auto& [version, slot] : entry.versions) all.push_back(std::move(slot.loaded));
    }
    models_.clear();
  }
}

void ModelTable::CancelAll() {
  std::vector<std::shared_ptr<ModelVersion>> all = AllReady();
  {
    const std::shared_lock lock(mutex_);
    all.insert(all.end(), retired_.begin(), retired_.end());
  }
  for (const auto& version : all) version->Cancel();
}

}  // namespace crema::server
