#include "server/http/chunk_decoder.h"

#include <algorithm>
#include <charconv>

#include "server/request_error.h"

namespace crema::server {
namespace {

[[noreturn]] void Bad(const char* message) { Refuse(Cause::kBadRequest, message); }

uint64_t SizeOf(std::string_view line) {
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) Bad("a control character beside a chunk");
  }
  const std::string_view digits = line.substr(0, line.find(';'));
  uint64_t size = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, size, 16);
  // from_chars accepts a sign.
  if (digits.empty() || digits[0] == '-' || error != std::errc() || end != last) {
    Bad("the size of a chunk is no number");
  }
  return size;
}

}  // namespace

ChunkDecoder::Step ChunkDecoder::TakeSize(std::string_view bytes) {
  const size_t end = bytes.substr(0, kMostLine + 2).find("\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() >= kMostLine + 2) Bad("the line of a chunk's size is too long");
    return {};
  }
  left_ = SizeOf(bytes.substr(0, end));
  state_ = left_ == 0 ? State::kEnd : State::kData;
  return {end + 2, {}};
}

ChunkDecoder::Step ChunkDecoder::TakeLineEnd(std::string_view bytes, State next) {
  if (!std::string_view("\r\n").starts_with(bytes.substr(0, 2))) {
    Bad(next == State::kDone ? "fields after the body are not read"
                             : "a chunk does not end where it says");
  }
  if (bytes.size() < 2) return {};
  state_ = next;
  return {2, {}};
}

ChunkDecoder::Step ChunkDecoder::Take(std::string_view bytes) {
  switch (state_) {
    case State::kSize:
      return TakeSize(bytes);
    case State::kEndOfData:
      return TakeLineEnd(bytes, State::kSize);
    case State::kEnd:
      return TakeLineEnd(bytes, State::kDone);
    default:
      break;
  }
  const auto taken = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  left_ -= taken;
  if (left_ == 0) state_ = State::kEndOfData;
  return {taken, bytes.substr(0, taken)};
}

}  // namespace crema::server
