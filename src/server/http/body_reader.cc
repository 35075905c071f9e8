#include "server/http/body_reader.h"

#include <algorithm>
#include <charconv>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr size_t kFirstStep = size_t{64} << 10;

[[noreturn]] void TooLong(size_t most) {
  Refuse(Cause::kTooLarge,
         StrCat("the body is longer than ",
                most >> 20 > 0 ? StrCat(most >> 20, " MiB") : StrCat(most, " bytes")));
}

[[noreturn]] void BadBody(const char* message) { Refuse(Cause::kBadRequest, message); }

uint64_t SizeOf(std::string_view line) {
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\t') || byte == 0x7f) BadBody("a control character beside a chunk");
  }
  const std::string_view digits = line.substr(0, line.find(';'));
  uint64_t size = 0;
  const char* const last = digits.data() + digits.size();
  const auto [end, error] = std::from_chars(digits.data(), last, size, 16);
  // from_chars accepts a sign.
  if (digits.empty() || digits[0] == '-' || error != std::errc() || end != last) {
    BadBody("the size of a chunk is not a number");
  }
  return size;
}

}  // namespace

BodyReader::BodyReader(const HttpHead& head, size_t most, ByteBudget& budget)
    : most_(most),
      chunked_(head.chunked),
      length_(static_cast<size_t>(std::min<uint64_t>(head.content_length.value_or(0), SIZE_MAX))),
      lease_(budget, 0) {
  if (length_ > most_) TooLong(most_);
}

bool BodyReader::done() const { return chunked_ ? chunks_.done() : body_.size() == length_; }

size_t BodyReader::Take(std::string_view bytes) {
  if (!chunked_) {
    const size_t taken = std::min(bytes.size(), length_ - body_.size());
    Append(bytes.substr(0, taken));
    return taken;
  }
  size_t used = 0;
  while (!chunks_.done()) {
    const ChunkDecoder::Step step = chunks_.Take(bytes.substr(used));
    used += step.used;
    Append(step.data);
    // Refuses a chunk that cannot fit once its size is known.
    if (chunks_.left() > most_ - body_.size()) TooLong(most_);
    if (step.used == 0) break;
  }
  return used;
}

void BodyReader::Append(std::string_view data) {
  if (data.empty()) return;
  if (data.size() > most_ - body_.size()) TooLong(most_);
  if (body_.size() + data.size() > leased_) Refit(body_.size() + data.size());
  body_.append(data);
}

// Doubles the lease, up to the largest possible size.
void BodyReader::Refit(size_t needed) {
  const size_t end = chunked_ ? most_ : length_;
  const size_t size = std::max(needed, std::min(end, std::max(kFirstStep, 2 * leased_)));
  if (!lease_.Grow(size - leased_)) {
    Refuse(Cause::kUnavailable, "too many requests are being read");
  }
  leased_ = size;
  body_.reserve(size);
}

ChunkDecoder::Step ChunkDecoder::TakeSize(std::string_view bytes) {
  const size_t end = bytes.substr(0, kMostLine + 2).find("\r\n");
  if (end == std::string_view::npos) {
    if (bytes.size() >= kMostLine + 2) BadBody("the line of a chunk's size is too long");
    return {};
  }
  left_ = SizeOf(bytes.substr(0, end));
  state_ = left_ == 0 ? State::kEnd : State::kData;
  return {end + 2, {}};
}

ChunkDecoder::Step ChunkDecoder::TakeLineEnd(std::string_view bytes, State next) {
  if (!std::string_view("\r\n").starts_with(bytes.substr(0, 2))) {
    BadBody(next == State::kDone ? "fields after the body are not read"
                                 : "a chunk does not end where it says");
  }
  if (bytes.size() < 2) return {};
  state_ = next;
  return {2, {}};
}

ChunkDecoder::Step ChunkDecoder::Take(std::string_view bytes) {
  if (state_ == State::kSize) return TakeSize(bytes);
  if (state_ == State::kEndOfData) return TakeLineEnd(bytes, State::kSize);
  if (state_ == State::kEnd) return TakeLineEnd(bytes, State::kDone);
  const auto taken = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  left_ -= taken;
  if (left_ == 0) state_ = State::kEndOfData;
  return {taken, bytes.substr(0, taken)};
}

}  // namespace crema::server
