// What was read once, kept in memory under a bound.
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

// Values by number. None is ever dropped, so pointers to them live as long as the cache. With the
// first value that does not fit it is full, and says so once. A template for its two kinds of
// values below. Thread safety: any number of threads.
template <typename T>
class BoundedCache {
 public:
  // What an entry takes besides the bytes of its value.
  static constexpr uint64_t kEntryBytes = sizeof(T) + 64;

  // `deferred_warnings` may be null.
  BoundedCache(uint64_t most_bytes, std::shared_ptr<DeferredWarnings> deferred_warnings)
      : most_bytes_(most_bytes), deferred_warnings_(std::move(deferred_warnings)) {}

  // Null when it is not there.
  const T* Find(uint64_t number) const {
    const std::shared_lock lock(mutex_);
    const auto found = values_.find(number);
    return found == values_.end() ? nullptr : &found->second;
  }

  // Keeps a copy, whose own memory is `bytes`, unless it is there or does not fit. Returns what is
  // kept, or null.
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

  // At most what the constructor was told.
  uint64_t bytes() const {
    const std::shared_lock lock(mutex_);
    return bytes_;
  }

 private:
  const uint64_t most_bytes_;
  const std::shared_ptr<DeferredWarnings> deferred_warnings_;
  mutable std::shared_mutex mutex_;  // guards what follows
  std::unordered_map<uint64_t, T> values_;
  uint64_t bytes_ = 0;
  bool full_ = false;
};

using FileCache = BoundedCache<std::string>;  // files and records as they are
using ImageCache = BoundedCache<Image>;       // pixels, before random steps

// The caches of one data layer; both may be null.
struct SampleCaches {
  std::shared_ptr<FileCache> encoded;
  std::shared_ptr<ImageCache> decoded;
};

}  // namespace crema
