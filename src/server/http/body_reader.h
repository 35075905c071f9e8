// Reads the body of a request from received bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/byte_budget.h"
#include "server/http/chunk_decoder.h"
#include "server/http/message.h"

namespace crema::server {

// Takes memory from the budget as the body grows, so that a client cannot reserve memory without
// sending data. Thread safety: one thread.
class BodyReader {
 public:
  // Throws kTooLarge if the head announces more than `most` bytes.
  BodyReader(const HttpHead& head, size_t most, ByteBudget& budget);

  // Consumes bytes from the front and returns their number. The rest is an incomplete line, or
  // follows the body. Throws kTooLarge, kBadRequest, and kUnavailable if the budget is exhausted.
  size_t Take(std::string_view bytes);
  bool done() const;
  std::string& body() { return body_; }

 private:
  void Append(std::string_view data);
  void Refit(size_t needed);

  const size_t most_;
  const bool chunked_;
  const size_t length_;  // 0 if chunked
  ChunkDecoder chunks_;
  ByteBudget::Lease lease_;
  size_t leased_ = 0;
  std::string body_;
};

}  // namespace crema::server
