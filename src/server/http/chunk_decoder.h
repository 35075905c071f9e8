// Strict decoder of chunked request bodies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace crema::server {

// Decodes incrementally without buffering. Refuses bare line feeds, size lines above 256 bytes
// (including extensions, which are ignored), and trailers: fields after the body would bypass the
// checks of the head. Thread safety: one thread.
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

}  // namespace crema::server
