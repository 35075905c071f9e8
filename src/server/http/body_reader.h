// The body of a request, out of what arrives.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/byte_budget.h"
#include "server/http/chunk_decoder.h"
#include "server/http/message.h"

namespace crema::server {

// Memory is taken from the budget as the body grows, so that nobody holds what he does not send.
// Thread safety: one thread.
class BodyReader {
 public:
  // Throws kTooLarge where the head says that the body is longer than `most`.
  BodyReader(const HttpHead& head, size_t most, ByteBudget& budget);

  // Takes from the front and returns how much; what is left begins with a part of a line, or
  // follows the body. Throws kTooLarge, kBadRequest, and kUnavailable where the budget is spent.
  size_t Take(std::string_view bytes);
  bool done() const;
  std::string& body() { return body_; }

 private:
  void Append(std::string_view data);
  void Refit(size_t needed);

  const size_t most_;
  const bool chunked_;
  const size_t length_;  // 0 for chunks
  ChunkDecoder chunks_;
  ByteBudget::Lease lease_;
  size_t leased_ = 0;
  std::string body_;
};

}  // namespace crema::server
