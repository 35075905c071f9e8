// Error messages of actions, and parts of texts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace crema::test {

template <typename Action>
std::vector<Problem> ProblemsOf(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.problems();
  }
  return {};
}

// The message of the error; empty if there is none.
template <typename Action>
std::string ErrorOf(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

}  // namespace crema::test
