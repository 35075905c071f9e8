#include "new/mask_pictures.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <string_view>
#include <system_error>
#include <utility>

#include "boxes/files_below.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

using Color = std::array<uint8_t, 3>;  // blue, green, red

uint32_t BigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// Returns the colors of a PNG file with a palette, by number; empty for others. Of equal colors the
// first counts.
std::map<Color, uint8_t> PaletteOf(std::string_view file) {
  constexpr std::string_view kSignature = "\x89PNG\r\n\x1a\n";
  std::map<Color, uint8_t> palette;
  if (!file.starts_with(kSignature)) return palette;
  file.remove_prefix(kSignature.size());
  constexpr size_t kAround = 12;  // length, type, checksum
  while (file.size() >= kAround) {
    const size_t length = BigEndian(file);
    const std::string_view type = file.substr(4, 4);
    if (type == "IDAT" || length > file.size() - kAround) break;
    if (type == "PLTE") {
      const std::string_view colors = file.substr(8, length);
      for (size_t i = 0; i + 2 < colors.size() && i / 3 < 256; i += 3) {
        const Color color = {static_cast<uint8_t>(colors[i + 2]),
                             static_cast<uint8_t>(colors[i + 1]), static_cast<uint8_t>(colors[i])};
        palette.emplace(color, static_cast<uint8_t>(i / 3));
      }
    }
    file.remove_prefix(length + kAround);
  }
  return palette;
}

// Classes by the lines of a file near the pictures; empty: there is none.
std::vector<std::string> NamesNear(const std::string& images, const std::string& masks) {
  for (const std::string& folder : {masks, images, masks + "..", images + ".."}) {
    for (const char* name : {"labels.txt", "classes.txt"}) {
      const fs::path path = (fs::path(folder) / name).lexically_normal();
      std::error_code ignored;
      if (!fs::is_regular_file(path, ignored)) continue;
      std::vector<std::string> names;
      for (const std::string& line : Split(ReadDataFile(path.string()), '\n')) {
        if (!Trim(line).empty()) names.emplace_back(Trim(line));
      }
      return names;
    }
  }
  return {};
}

}  // namespace

Image ReadLabelMapImage(const std::string& path) {
  const std::string file = ReadDataFile(path);
  Image image;
  DecodeImage(file, ColorMode::kAsStored, StrCat("'", path, "'"), &image);
  if (image.channels == 1) return image;
  const std::map<Color, uint8_t> palette = PaletteOf(file);
  const auto plane = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  Image labels{.channels = 1, .height = image.height, .width = image.width, .pixels = {}};
  labels.pixels.reserve(plane);
  for (size_t i = 0; i < plane && image.channels >= 3; ++i) {
    const Color color = {image.pixels[i], image.pixels[plane + i], image.pixels[2 * plane + i]};
    const auto label = palette.find(color);
    if (label == palette.end()) break;
    labels.pixels.push_back(label->second);
  }
  if (labels.pixels.size() == plane) return labels;
  Fail(ErrorCode::kDataLoss,
       StrCat("is no label map: it has ", image.channels,
              " channels and no palette. A label map is a PNG of one channel, or with a palette, "
              "whose values are the numbers of classes"),
       {.file = path});
}

PictureSet ReadMaskPictures(const std::string& images, const std::string& masks) {
  PictureSet set{.layout = "label maps", .root = WithSlash(images)};
  const std::string mask_root = WithSlash(masks);
  const std::map<std::string, std::string> pictures = ImagesByStem(set.root);
  std::map<std::string, std::string> maps = ImagesByStem(mask_root);
  for (const auto& [stem, name] : pictures) {
    const auto map = maps.find(stem);
    if (map == maps.end()) {
      Fail(ErrorCode::kDataLoss,
           StrCat("'", set.root, name, "' has no label map '", mask_root, stem, ".png'"));
    }
    set.pictures.push_back({.name = name, .mask = mask_root + map->second});
    maps.erase(map);
  }
  if (!maps.empty()) {
    Fail(ErrorCode::kDataLoss, StrCat("the label map '", mask_root, maps.begin()->second,
                                      "' has no picture in '", set.root, "'"));
  }
  set.classes = NamesNear(set.root, mask_root);
  return set;
}

LabelCounts CountLabels(const LabelledPicture& picture, const Image& image, const Image& map,
                        const std::vector<std::string>& names) {
  if (map.height != image.height || map.width != image.width) {
    Fail(ErrorCode::kDataLoss,
         StrCat("is ", map.width, "x", map.height, ", but its picture '", picture.name, "' is ",
                image.width, "x", image.height),
         {.file = picture.mask});
  }
  LabelCounts counts = {};
  for (const uint8_t label : map.pixels) ++counts[label];
  for (size_t label = names.size(); !names.empty() && label < kIgnoredLabel; ++label) {
    if (counts[label] == 0) continue;
    Fail(ErrorCode::kDataLoss,
         StrCat("has the label ", label, ", but there are ", names.size(), " classes (0 to ",
                names.size() - 1, "; ", kIgnoredLabel, " is ignored): ", Join(names, ", ")),
         {.file = picture.mask});
  }
  return counts;
}

void SetClassesAndShares(const LabelCounts& counts, PictureSet* set) {
  const auto last =
      std::find_if(counts.rbegin() + 1, counts.rend(), [](int64_t n) { return n > 0; });
  const auto used = static_cast<size_t>(counts.rend() - last);
  const bool named = !set->classes.empty();
  for (size_t label = 0; !named && label < used; ++label) {
    set->classes.push_back(std::to_string(label));
  }
  const auto all = std::accumulate(counts.begin(), counts.end() - 1, int64_t{1});
  set->shares.clear();
  for (size_t label = 0; label < set->classes.size(); ++label) {
    set->shares.push_back(static_cast<double>(counts[label]) / static_cast<double>(all));
  }
}

}  // namespace crema::tools
