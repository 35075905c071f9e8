#include "server/protocol/names.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "core/error.h"

namespace crema::server {
namespace {

constexpr size_t kMostName = 128;

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

bool IsModelName(std::string_view name) {
  if (name.empty() || name.size() > kMostName || name == "." || name == "..") return false;
  return std::ranges::all_of(
      name, [](char c) { return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-'; });
}

int64_t ParseVersion(std::string_view text) {
  if (text.empty() || text[0] == '0' || text[0] == '-') return 0;
  int64_t version = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), version);
  return error == std::errc() && end == text.data() + text.size() ? version : 0;
}

bool IsRequestId(std::string_view text) {
  if (text.empty() || text.size() > kMostName) return false;
  return std::ranges::all_of(text, [](char c) {
    return IsAlphanumeric(c) || c == '_' || c == '.' || c == '-' || c == ':';
  });
}

std::string MakeRequestId() {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<unsigned char, 16> bytes{};
  CREMA_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  std::string id;
  for (const unsigned char byte : bytes) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

}  // namespace crema::server
