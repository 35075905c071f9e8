// Names of tar shards and of their members.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>

#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "data/records/tar_shards.h"
#include "format/file.h"

namespace crema {
namespace {

constexpr size_t kMostShards = 1000000;

[[noreturn]] void FailPattern(const std::string& pattern, const std::string& what) {
  Fail(ErrorCode::kInvalidArgument,
       StrCat("'", pattern, "': ", what, "; write train-{000..009}.tar or {train,more}.tar"));
}

// Returns the numbers of a range, zero-padded to the length of the first.
std::vector<std::string> Numbers(const std::string& pattern, std::string_view range) {
  const size_t dots = range.find("..");
  const std::string_view texts[] = {range.substr(0, dots), range.substr(dots + 2)};
  uint64_t bounds[2] = {};
  for (int i = 0; i < 2; ++i) {
    const char* last = texts[i].data() + texts[i].size();
    const auto [end, error] = std::from_chars(texts[i].data(), last, bounds[i]);
    if (error != std::errc() || end != last || texts[i].empty()) {
      FailPattern(pattern, StrCat("'", texts[i], "' is not a number"));
    }
  }
  if (bounds[1] < bounds[0]) FailPattern(pattern, StrCat("'{", range, "}' counts downwards"));
  if (bounds[1] - bounds[0] >= kMostShards) FailPattern(pattern, "means too many shards");
  std::vector<std::string> numbers;
  for (uint64_t n = bounds[0]; n <= bounds[1]; ++n) {
    const std::string digits = std::to_string(n);
    const size_t zeros = texts[0].size() - std::min(texts[0].size(), digits.size());
    numbers.push_back(std::string(zeros, '0') + digits);
  }
  return numbers;
}

}  // namespace

TarName SplitTarName(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == std::string_view::npos || dot == base) return {};
  return {name.substr(0, dot), name.substr(dot + 1)};
}

bool IsImageExtension(std::string_view extension) {
  constexpr std::array<std::string_view, 11> kImages = {"jpg", "jpeg", "png", "ppm",  "pgm", "pbm",
                                                        "pnm", "bmp",  "tif", "tiff", "webp"};
  std::string lower(extension);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return std::ranges::find(kImages, lower) != kImages.end();
}

std::vector<std::string> ExpandBraces(const std::string& pattern) {
  const size_t open = pattern.find('{');
  if (open == std::string::npos) return {pattern};
  const size_t close = pattern.find('}', open);
  if (close == std::string::npos) FailPattern(pattern, "the brace '{' is not closed");
  const std::string inside = pattern.substr(open + 1, close - open - 1);
  std::vector<std::string> choices;
  if (inside.find("..") != std::string::npos) {
    choices = Numbers(pattern, inside);
  } else if (inside.find(',') != std::string::npos) {
    choices = Split(inside, ',');
  } else {
    FailPattern(pattern, StrCat("'{", inside, "}' is neither a range nor a list"));
  }
  const std::vector<std::string> tails = ExpandBraces(pattern.substr(close + 1));
  if (choices.size() * tails.size() >= kMostShards) {
    FailPattern(pattern, "means too many shards");
  }
  std::vector<std::string> paths;
  for (const std::string& choice : choices) {
    for (const std::string& tail : tails) {
      paths.push_back(StrCat(pattern.substr(0, open), choice, tail));
    }
  }
  return paths;
}

bool LooksLikeTarShards(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return path.find('{') != std::string::npos;
  if (fs::is_directory(status)) {
    for (fs::directory_iterator entry(path, error), end; !error && entry != end;
         Advance(entry, error)) {
      if (entry->path().extension() == ".tar") return true;
    }
    return false;
  }
  if (!fs::is_regular_file(status)) return false;
  if (path.ends_with(".tar")) return true;
  constexpr size_t kMagicEnd = 262;
  return ReadFileStart(path, kMagicEnd).ends_with("ustar");
}

}  // namespace crema
