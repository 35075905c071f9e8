// Image sequences with the frames of a video.
#include <charconv>
#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"

namespace crema {
namespace {

// The text around the number of a pattern, and its minimum number of digits.
struct FramePattern {
  std::string before;
  std::string after;
  size_t digits = 0;

  std::string Path(uint64_t number) const {
    const std::string text = std::to_string(number);
    const size_t zeros = digits > text.size() ? digits - text.size() : 0;
    return before + std::string(zeros, '0') + text + after;
  }
};

FramePattern ParsePattern(const std::string& pattern) {
  constexpr size_t kMostDigits = 20;
  const size_t percent = pattern.find('%');
  const size_t end = pattern.find_first_not_of("0123456789", percent + 1);
  FramePattern parsed;
  bool fine = percent != std::string::npos && end != std::string::npos && pattern[end] == 'd' &&
              pattern.find('%', end) == std::string::npos;
  if (fine && end > percent + 1) {
    const auto [stop, error] =
        std::from_chars(pattern.data() + percent + 1, pattern.data() + end, parsed.digits);
    fine = error == std::errc() && stop == pattern.data() + end && parsed.digits <= kMostDigits &&
           pattern[percent + 1] == '0';
  }
  if (!fine) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", pattern,
                "' is not a pattern of image files: it must have one %d, or %06d and "
                "the like, for the number of the frame"));
  }
  parsed.before = pattern.substr(0, percent);
  parsed.after = pattern.substr(end + 1);
  return parsed;
}

}  // namespace

ImageList ImageList::OfFrames(const std::string& pattern, uint32_t skip) {
  const FramePattern frames = ParsePattern(pattern);
  const auto exists = [&](uint64_t number) {
    std::error_code ignored;
    return std::filesystem::exists(frames.Path(number), ignored);
  };
  ImageList list(pattern);
  const uint64_t first = exists(0) ? 0 : 1;
  for (uint64_t number = first; exists(number); ++number) {
    if ((number - first) % (uint64_t{skip} + 1) != 0) continue;
    list.entries_.push_back({.path = frames.Path(number), .label = 0, .line = 0});
  }
  if (list.entries_.empty()) {
    Fail(ErrorCode::kNotFound, StrCat("there are no frames '", frames.Path(0), "' or '",
                                      frames.Path(1), "', with which '", pattern, "' would begin"));
  }
  return list;
}

}  // namespace crema
