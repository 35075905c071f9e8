// Bearer tokens.
#pragma once

#include <array>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema::server {

using Digest = std::array<unsigned char, 32>;

Digest Sha256(std::string_view bytes);
std::string Base64(std::string_view bytes);
// Decodes Base64 with padding; returns nothing for other text.
std::optional<std::string> FromBase64(std::string_view text);

// Tokens that grant access; an empty set grants it to everybody. Thread safety: const.
class TokenSet {
 public:
  TokenSet() = default;
  // Reads one token per line, 16 to 512 printable characters without spaces; lines that begin with
  // # are comments. Throws kInvalidArgument for other lines, a file without tokens, and a file that
  // any user may read.
  static TokenSet FromFile(const std::string& path);

  bool empty() const { return digests_.empty(); }
  // Returns true if `authorization` is "Bearer " and one of the tokens. Constant time.
  bool Allows(std::string_view authorization) const;

 private:
  std::vector<Digest> digests_;
};

// Tokens that may be replaced during use. Thread safety: any number of threads.
class SharedTokens {
 public:
  void Set(TokenSet tokens) {
    auto set = std::make_shared<const TokenSet>(std::move(tokens));
    const std::lock_guard lock(mutex_);
    tokens_.swap(set);
  }
  // Like those of TokenSet.
  bool empty() const { return Now()->empty(); }
  bool Allows(std::string_view authorization) const { return Now()->Allows(authorization); }

 private:
  std::shared_ptr<const TokenSet> Now() const {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

  mutable std::mutex mutex_;  // std::atomic<std::shared_ptr> of libstdc++ 12 has a data race
  std::shared_ptr<const TokenSet> tokens_ = std::make_shared<const TokenSet>();
};

// For files that hold tokens and keys: throws kInvalidArgument if any user may read or write the
// file. Ignores a file that cannot be examined, which the reader will report.
void RefuseOpenSecret(const std::string& path);

}  // namespace crema::server
