#include "server/security/tokens.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema::server {
namespace {

constexpr size_t kLeastLength = 16;
constexpr size_t kMostLength = 512;

bool IsToken(std::string_view text) {
  return text.size() >= kLeastLength && text.size() <= kMostLength &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

bool IsBearer(std::string_view scheme) {
  constexpr std::string_view kBearer = "bearer ";
  return std::ranges::equal(scheme, kBearer, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

}  // namespace

Digest Sha256(std::string_view bytes) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
  return digest;
}

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<size_t>(length));
  return text;
}

std::optional<std::string> FromBase64(std::string_view text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  const bool whole = text.size() % 4 == 0 && text.size() < size_t{1} << 30;
  if (!whole ||
      text.substr(0, text.size() - padding).find_first_not_of(kLetters) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string bytes(text.size() / 4 * 3, '\0');
  EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                  reinterpret_cast<const unsigned char*>(text.data()),
                  static_cast<int>(text.size()));
  bytes.resize(bytes.size() - padding);
  return bytes;
}

TokenSet TokenSet::FromFile(const std::string& path) {
  RefuseOpenSecret(path);
  TokenSet tokens;
  int number = 0;
  for (const std::string& line : Split(ReadFile(path), '\n')) {
    ++number;
    const std::string_view token = Trim(line);
    if (token.empty() || token.starts_with('#')) continue;
    if (!IsToken(token)) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("a token has ", kLeastLength, " to ", kMostLength,
                  " printable characters without spaces"),
           {.file = path, .line = number});
    }
    tokens.digests_.push_back(Sha256(token));
  }
  if (tokens.empty()) Fail(ErrorCode::kInvalidArgument, "there is no token in it", {.file = path});
  return tokens;
}

bool TokenSet::Allows(std::string_view authorization) const {
  if (empty()) return true;
  constexpr size_t kScheme = 7;
  if (authorization.size() < kScheme || !IsBearer(authorization.substr(0, kScheme))) return false;
  // Compares digests, and all of them, so that the time reveals neither length nor position.
  const Digest given = Sha256(authorization.substr(kScheme));
  int allowed = 0;
  for (const Digest& digest : digests_) {
    allowed |= static_cast<int>(CRYPTO_memcmp(given.data(), digest.data(), digest.size()) == 0);
  }
  return allowed != 0;
}

void RefuseOpenSecret(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if ((status.st_mode & (S_IROTH | S_IWOTH)) == 0) return;
  constexpr mode_t kBits = 0777;
  std::array<char, 8> mode{};
  std::snprintf(mode.data(), mode.size(), "%04o", status.st_mode & kBits);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("everybody on this machine can ",
              (status.st_mode & S_IROTH) != 0 ? "read it" : "write into it", " (mode ", mode.data(),
              "), and it holds a secret: chmod 600 it; for a volume of Kubernetes, set "
              "defaultMode: 0440"),
       {.file = path});
}

}  // namespace crema::server
