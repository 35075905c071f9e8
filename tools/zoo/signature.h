// Signatures of minisign (https://jedisct1.github.io/minisign), over Ed25519 (RFC 8032).
#pragma once

#include <string>
#include <string_view>

namespace crema::tools {

// Verifies `message` against the text of its .minisig file and returns the trusted comment.
// `public_key` is a line of 56 characters, or the text of a .pub file. Throws kInvalidArgument for
// what is no public key, kDataLoss, naming `origin`, for what is no signature, that of another key,
// or of another message, kUnsupported if this build has no OpenSSL.
std::string VerifySignature(std::string_view message, const std::string& signature,
                            const std::string& public_key, const std::string& origin);

}  // namespace crema::tools
