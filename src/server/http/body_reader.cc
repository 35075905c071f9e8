#include "server/http/body_reader.h"

#include <algorithm>

#include "core/strings.h"
#include "server/request_error.h"

namespace crema::server {
namespace {

constexpr size_t kFirstStep = size_t{64} << 10;

[[noreturn]] void TooLong(size_t most) {
  Refuse(Cause::kTooLarge, StrCat("the body is longer than ", most, " bytes"));
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

}  // namespace crema::server
