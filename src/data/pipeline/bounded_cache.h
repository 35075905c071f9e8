// Cache of values that were read, with a size limit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/deferred_warnings.h"
#include "core/strings.h"
#include "data/image/image.h"

namespace crema {

// Values by number. Never evicts, so pointers to values live as long as the cache. The first value
// that does not fit marks the cache full and reports a warning. Thread safety: any number of
// threads.
template <typename T>
class BoundedCache {
 public:
  // Overhead of an entry besides the bytes of its value.
  static constexpr uint64_t kEntryBytes = sizeof(T) + 64;

  // `deferred_warnings` may be null.
  BoundedCache(uint64_t most_bytes, std::shared_ptr<DeferredWarnings> deferred_warnings)
      : most_bytes_(most_bytes), deferred_warnings_(std::move(deferred_warnings)) {}

  // Returns null if it is missing.
  const T* Find(uint64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto found = values_.find(number);
    return found == values_.end() ? nullptr : &found->second;
  }

  // Stores a copy, which allocates `bytes`, unless the number exists or the value does not fit.
  // Returns the stored value or null.
  const T* Keep(uint64_t number, const T& value, uint64_t bytes) {
    const std::unique_lock lock(mutex_);
    if (const auto found = values_.find(number); found != values_.end()) return &found->second;
    if (full_) return nullptr;
    if (bytes + kEntryBytes > most_bytes_ - bytes_) {
      full_ = true;
      if (deferred_warnings_) {
        deferred_warnings_->Add(
            StrCat("the cache is full with ", values_.size(), " entries in ", most_bytes_ >> 20,
                   " MiB: the rest is read again each time (pipeline_param.cache_mb)"));
      }
      return nullptr;
    }
    bytes_ += bytes + kEntryBytes;
    return &values_.emplace(number, value).first->second;
  }

  // At most `most_bytes`.
  uint64_t bytes() const {
    const std::shared_lock lock(mutex_);
    return bytes_;
  }

 private:
  const uint64_t most_bytes_;
  const std::shared_ptr<DeferredWarnings> deferred_warnings_;
  mutable std::shared_mutex mutex_;  // guards the members below
  std::unordered_map<uint64_t, T> values_;
  uint64_t bytes_ = 0;
  bool full_ = false;
};

using FileCache = BoundedCache<std::string>;  // files and records, undecoded
using ImageCache = BoundedCache<Image>;       // pixels, before random steps

// The caches of one data layer; both may be null.
struct SampleCaches {
  std::shared_ptr<FileCache> encoded;
  std::shared_ptr<ImageCache> decoded;
};

}  // namespace crema
