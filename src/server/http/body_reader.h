// Reads the body of a request from received bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/byte_budget.h"
#include "server/http/message.h"

namespace crema::server {

// Strict decoder of chunked bodies. Decodes incrementally without buffering. Refuses bare line
// feeds, size lines above 256 bytes (including extensions, which are ignored), and trailers: fields
// after the body would bypass the checks of the head. Thread safety: one thread.
class ChunkDecoder {
 public:
  static constexpr size_t kMostLine = 256;

  struct Step {
    size_t used = 0;        // bytes consumed from the front
    std::string_view data;  // body bytes, a part of them
  };
  // Decodes one step from the front of `bytes`; used == 0: needs more. Requires: !done(). Throws
  // kBadRequest.
  Step Take(std::string_view bytes);
  bool done() const { return state_ == State::kDone; }
  // Remaining bytes of the current chunk.
  uint64_t left() const { return left_; }

 private:
  enum class State { kSize, kData, kEndOfData, kEnd, kDone };

  Step TakeSize(std::string_view bytes);
  Step TakeLineEnd(std::string_view bytes, State next);

  State state_ = State::kSize;
  uint64_t left_ = 0;
};

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
