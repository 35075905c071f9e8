// A library of CUDA's that rows can do without, and that tests can put functions in place of.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "math/cuda/cuda_info.h"

namespace crema {

// `Functions` is the table of its functions. Meant to be a static variable. Thread safety: any
// number of threads, but for Replace.
template <typename Functions>
class ReplaceableLibrary {
 public:
  // `load` is called at most once, where there is a GPU: handles belong to one. It may throw Error.
  ReplaceableLibrary(const char* name, Functions (*load)()) : name_(name) {
    reason_ = WhyNoCuda();
    if (!reason_.empty()) return;
    try {
      functions_ = load();
    } catch (const Error& error) {
      reason_ = error.what();
    }
  }

  // Empty: it can be used.
  std::string WhyNot() const { return replaced_by_.load() != nullptr ? "" : reason_; }

  // Throws kDeviceFailure where it cannot be used.
  const Functions& Get() const {
    if (const Functions* functions = replaced_by_.load(); functions != nullptr) return *functions;
    if (!functions_) {
      Fail(ErrorCode::kDeviceFailure, StrCat(name_, " cannot be used: ", reason_));
    }
    return *functions_;
  }

  bool replaced() const { return replaced_by_.load() != nullptr; }

  // Null: no longer. Requires that nobody asks for it meanwhile.
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
