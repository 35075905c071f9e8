#include "core/deferred_warnings.h"

#include <utility>

#include "core/strings.h"

namespace crema {

void DeferredWarnings::Add(std::string text) {
  const std::lock_guard lock(mutex_);
  if (texts_.size() < kMost) {
    texts_.push_back(std::move(text));
  } else {
    ++left_out_;
  }
}

std::vector<std::string> DeferredWarnings::Take() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> texts = std::exchange(texts_, {});
  if (const uint64_t left_out = std::exchange(left_out_, 0); left_out > 0) {
    texts.push_back(StrCat(left_out, " more messages were left out"));
  }
  return texts;
}

}  // namespace crema
