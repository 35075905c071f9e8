// Small text helpers for messages.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace crema {

// The arguments, streamed one after the other.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::ostringstream stream;
  (stream << ... << args);
  return stream.str();
}

std::string Join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);  // keeps empty parts
std::string_view Trim(std::string_view text);

// The candidate that a misspelt `word` most likely means: smallest edit distance, ignoring case and
// underscores; empty when none is near.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

// " (did you mean 'x'?)" or nothing.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

}  // namespace crema
