// Small text helpers for messages.
#pragma once

#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace crema {

// Appends as a stream would print. Frequent types avoid streams, which are slow to construct.
template <typename T>
void AppendTo(std::string* text, const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    *text += std::string_view(value);
  } else if constexpr (std::is_same_v<T, char>) {
    *text += value;
  } else if constexpr (std::is_integral_v<T> && sizeof(T) > 1 && !std::is_same_v<T, wchar_t>) {
    *text += std::to_string(value);
  } else {
    std::ostringstream stream;
    stream << value;
    *text += stream.str();
  }
}

// Returns the arguments, printed in sequence.
template <typename... Args>
std::string StrCat(const Args&... args) {
  std::string text;
  (AppendTo(&text, args), ...);
  return text;
}

std::string Join(std::span<const std::string> parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);  // keeps empty parts
std::string_view Trim(std::string_view text);

// Returns the most likely candidate for a misspelt `word`: smallest edit distance, ignoring case
// and underscores; empty if none is near.
std::string Nearest(std::string_view word, std::span<const std::string> candidates);

// Like Nearest, among candidates at most `most_edits` edits away.
std::string Nearest(std::string_view word, std::span<const std::string> candidates,
                    size_t most_edits);

// Returns " (did you mean 'x'?)" or nothing.
std::string DidYouMean(std::string_view word, std::span<const std::string> candidates);

}  // namespace crema
