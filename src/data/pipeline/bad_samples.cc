#include "data/pipeline/bad_samples.h"

namespace crema {

bool IsAboutSample(const Error& error) {
  return error.code() == ErrorCode::kDataLoss || error.code() == ErrorCode::kIoFailure ||
         error.code() == ErrorCode::kNotFound;
}

std::vector<size_t> ReplaceBadSamples(std::span<const uint8_t> bad, OnBadSample how) {
  const size_t count = bad.size();
  // Stepping by count - 1 modulo count goes backwards.
  const size_t step = how == OnBadSample::kSkip ? 1 : count - 1;
  std::vector<size_t> from(count);
  for (size_t i = 0; i < count; ++i) {
    size_t at = i;
    for (size_t tries = 0; bad[at] != 0; ++tries) {
      CREMA_CHECK(tries < count);
      at = (at + step) % count;
    }
    from[i] = at;
  }
  return from;
}

}  // namespace crema
