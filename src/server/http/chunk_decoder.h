// The body of a request that comes in chunks, read strictly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace crema::server {

// Takes what comes piece by piece; keeps none of it. Refused are bare line feeds, lines of sizes
// (with extensions, which are passed over) above 256 bytes, and trailers: fields behind the body
// would escape what holds for the head. Thread safety: one thread.
class ChunkDecoder {
 public:
  static constexpr size_t kMostLine = 256;

  struct Step {
    size_t used = 0;        // bytes taken from the front
    std::string_view data;  // of the body; lies in them
  };
  // One step from the front of `bytes`; used == 0: more must come first. Requires: !done(). Throws
  // kBadRequest.
  Step Take(std::string_view bytes);
  bool done() const { return state_ == State::kDone; }
  // Of the chunk that is being read, what is still to come.
  uint64_t left() const { return left_; }

 private:
  enum class State { kSize, kData, kEndOfData, kEnd, kDone };

  Step TakeSize(std::string_view bytes);
  Step TakeLineEnd(std::string_view bytes, State next);

  State state_ = State::kSize;
  uint64_t left_ = 0;
};

}  // namespace crema::server
