#include "common/preprocessing_text.h"

#include <vector>

#include "core/strings.h"

namespace crema::tools {
namespace {

std::string NumbersText(const char* flag, const std::vector<float>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += StrCat(i == 0 ? StrCat(" --", flag, "=") : ",", numbers[i]);
  }
  return text;
}

}  // namespace

std::string FlagsOfPreprocessing(const Preprocessing& p) {
  constexpr size_t kMostChannels = 4;
  const Preprocessing defaults;
  std::string flags;
  if (p.rgb) flags += " --rgb";
  if (p.invert) flags += " --invert";
  if (p.range != defaults.range) flags += StrCat(" --pixel_range=", p.range);
  flags += p.mean.size() > kMostChannels ? " --mean=FILE" : NumbersText("mean", p.mean);
  if (p.scale != 1) flags += StrCat(" --scale=", p.scale);
  flags += NumbersText("std", p.deviation);
  if (p.fit != defaults.fit) flags += StrCat(" --fit=", ToString(p.fit));
  if (p.short_side != 0) flags += StrCat(" --resize=", p.short_side);
  if (p.resize_height != 0) flags += StrCat(" --resize=", p.resize_height, "x", p.resize_width);
  if (p.interpolation != defaults.interpolation) {
    flags += StrCat(" --interpolation=", ToString(p.interpolation));
  }
  if (p.pad != defaults.pad) flags += StrCat(" --pad=", p.pad);
  if (p.ten_crops) flags += " --ten_crops";
  return flags;
}

}  // namespace crema::tools
