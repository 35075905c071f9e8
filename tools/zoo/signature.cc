#include "zoo/signature.h"

#include "core/error.h"
#include "core/strings.h"

#ifdef CREMA_HAVE_OPENSSL
#include <openssl/evp.h>

#include <memory>
#include <optional>
#include <vector>
#endif

namespace crema::tools {

#ifdef CREMA_HAVE_OPENSSL
namespace {

constexpr size_t kKind = 2;   // "Ed": of the message; "ED": of its BLAKE2b-512
constexpr size_t kKeyId = 8;  // which names the pair of keys
constexpr size_t kKeyBytes = 32;
constexpr size_t kSignatureBytes = 64;
constexpr std::string_view kTrusted = "trusted comment: ";

std::string Bytes(const unsigned char* bytes, size_t count) {
  return {reinterpret_cast<const char*>(bytes), count};
}

const unsigned char* Unsigned(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

// Returns the decoded bytes, or nothing if there are not `count`.
std::optional<std::string> FromBase64(std::string_view text, size_t count) {
  std::vector<unsigned char> bytes(text.size() + 1);
  const int size = EVP_DecodeBlock(bytes.data(), Unsigned(text), static_cast<int>(text.size()));
  if (size < static_cast<int>(count) || size > static_cast<int>(count) + 2) return std::nullopt;
  return Bytes(bytes.data(), count);
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : Split(text, '\n')) {
    const std::string bare = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
    if (!bare.empty()) lines.push_back(bare);
  }
  return lines;
}

std::string KeyOf(const std::string& text) {
  const std::vector<std::string> lines = LinesOf(text);
  const std::optional<std::string> key =
      lines.empty() ? std::nullopt : FromBase64(lines.back(), kKind + kKeyId + kKeyBytes);
  if (key && key->starts_with("Ed")) return *key;
  Fail(ErrorCode::kInvalidArgument,
       "is no public key of minisign: a line of 56 characters that begins with RW, or a .pub file");
}

bool IsSigned(std::string_view message, std::string_view signature, std::string_view key) {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> pkey(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, Unsigned(key), key.size()),
      EVP_PKEY_free);
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  return pkey && context &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, pkey.get()) == 1 &&
         EVP_DigestVerify(context.get(), Unsigned(signature), signature.size(), Unsigned(message),
                          message.size()) == 1;
}

std::string Blake2b(std::string_view message) {
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int good =
      EVP_Digest(message.data(), message.size(), sum, &size, EVP_blake2b512(), nullptr);
  if (good != 1) Fail(ErrorCode::kUnsupported, "OpenSSL has no BLAKE2b-512");
  return Bytes(sum, size);
}

}  // namespace

std::string VerifySignature(std::string_view message, const std::string& signature,
                            const std::string& public_key, const std::string& origin) {
  const auto fail = [&](const char* what) { Fail(ErrorCode::kDataLoss, what, {.file = origin}); };
  const std::string key = KeyOf(public_key);
  const std::vector<std::string> lines = LinesOf(signature);
  std::optional<std::string> parts;
  std::optional<std::string> of_comment;
  if (lines.size() == 4 && lines[2].starts_with(kTrusted)) {
    parts = FromBase64(lines[1], kKind + kKeyId + kSignatureBytes);
    of_comment = FromBase64(lines[3], kSignatureBytes);
  }
  if (!parts || !of_comment) fail("is no signature of minisign");
  if (parts->substr(kKind, kKeyId) != key.substr(kKind, kKeyId)) {
    fail("is the signature of another key");
  }
  const std::string kind = parts->substr(0, kKind);
  const std::string sum = kind == "ED" ? Blake2b(message) : std::string(message);
  const std::string value = parts->substr(kKind + kKeyId);
  const std::string bare_key = key.substr(kKind + kKeyId);
  const std::string comment = lines[2].substr(kTrusted.size());
  const bool good = (kind == "ED" || kind == "Ed") && IsSigned(sum, value, bare_key) &&
                    IsSigned(value + comment, *of_comment, bare_key);
  if (!good) fail("is not the signature of this list of models: it was altered");
  return comment;
}

#else

std::string VerifySignature(std::string_view /*message*/, const std::string& /*signature*/,
                            const std::string& /*public_key*/, const std::string& /*origin*/) {
  Fail(ErrorCode::kUnsupported, "this build has no OpenSSL, which verifies signatures");
}

#endif

}  // namespace crema::tools
