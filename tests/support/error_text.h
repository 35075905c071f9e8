// Error messages of actions.
#pragma once

#include <string>
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

// The message of the error, or "no error".
template <typename Action>
std::string ErrorOf(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

inline bool Contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace crema::test
