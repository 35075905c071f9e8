// Bearer tokens.
#pragma once

#include <array>
#include <string>
#include <string_view>
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
  // comments. Throws kInvalidArgument for other lines and where there is none.
  static TokenSet FromFile(const std::string& path);

  bool empty() const { return digests_.empty(); }
  // Whether `authorization` is "Bearer " and one of them. Takes the same time wherever they
  // differ.
  bool Allows(std::string_view authorization) const;

 private:
  std::vector<Digest> digests_;
};

}  // namespace crema::server
