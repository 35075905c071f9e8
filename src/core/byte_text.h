// Values in a row of bytes, for messages between processes of one program.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/error.h"

namespace crema {

template <typename T>
void AppendValue(const T& value, std::string* to) {
  static_assert(std::is_trivially_copyable_v<T>);
  to->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

inline void AppendText(std::string_view text, std::string* to) {
  AppendValue(uint64_t{text.size()}, to);
  to->append(text);
}

// Return the next value, and remove it from `from`.
template <typename T>
T TakeValue(std::string_view* from) {
  CREMA_CHECK(from->size() >= sizeof(T));
  T value;
  std::memcpy(&value, from->data(), sizeof(T));
  from->remove_prefix(sizeof(T));
  return value;
}

inline std::string_view TakeText(std::string_view* from) {
  const auto size = TakeValue<uint64_t>(from);
  CREMA_CHECK(from->size() >= size);
  const std::string_view text = from->substr(0, size);
  from->remove_prefix(size);
  return text;
}

}  // namespace crema
