// An optional CUDA library, whose functions tests can replace.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cuda_info.h"

namespace crema {

// `Functions` is the table of its functions. For static variables. Thread safety: any number of
// threads, except for Replace.
template <typename Functions>
class ReplaceableLibrary {
 public:
  // `load` is called at most once, and only with a GPU: handles belong to one. It may throw Error.
  ReplaceableLibrary(const char* name, Functions (*load)()) : name_(name) {
    reason_ = WhyNoCuda();
    if (!reason_.empty()) return;
    try {
      functions_ = load();
    } catch (const Error& error) {
      reason_ = error.what();
    }
  }

  // Returns why it cannot be used, or empty.
  std::string WhyNot() const { return replaced_by_.load() != nullptr ? "" : reason_; }

  // Throws kDeviceFailure if it cannot be used.
  const Functions& Get() const {
    if (const Functions* functions = replaced_by_.load(); functions != nullptr) return *functions;
    if (!functions_) {
      Fail(ErrorCode::kDeviceFailure, StrCat(name_, " cannot be used: ", reason_));
    }
    return *functions_;
  }

  bool replaced() const { return replaced_by_.load() != nullptr; }

  // Null: restores the library. Requires that no other thread uses it meanwhile.
  void Replace(const Functions* functions) const {
    CREMA_CHECK((replaced_by_.exchange(functions) == nullptr) == (functions != nullptr));
  }

 private:
  const char* const name_;
  std::optional<Functions> functions_;
  std::string reason_;
  mutable std::atomic<const Functions*> replaced_by_{nullptr};
};

}  // namespace crema
