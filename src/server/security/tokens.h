// Bearer tokens.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace crema::server {

using Digest = std::array<unsigned char, 32>;

Digest Sha256(std::string_view bytes);
std::string Base64(std::string_view bytes);

// Tokens that open a door; without any it stands open. Thread safety: const.
class TokenSet {
 public:
  TokenSet() = default;
  // One token a line, 16 to 512 printable characters without spaces; lines that begin with # are
  // comments. Throws kInvalidArgument for other lines, where there is none, and for a file that
  // everybody may read.
  static TokenSet FromFile(const std::string& path);

  bool empty() const { return digests_.empty(); }
  // Whether `authorization` is "Bearer " and one of them. Takes the same time wherever they
  // differ.
  bool Allows(std::string_view authorization) const;

 private:
  std::vector<Digest> digests_;
};

// Tokens that may be replaced while they are asked for. Thread safety: any number of threads.
class SharedTokens {
 public:
  void Set(TokenSet tokens) { tokens_ = std::make_shared<const TokenSet>(std::move(tokens)); }
  // As those of TokenSet.
  bool empty() const { return tokens_.load()->empty(); }
  bool Allows(std::string_view authorization) const {
    return tokens_.load()->Allows(authorization);
  }

 private:
  std::atomic<std::shared_ptr<const TokenSet>> tokens_{std::make_shared<const TokenSet>()};
};

}  // namespace crema::server
