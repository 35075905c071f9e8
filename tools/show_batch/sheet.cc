#include "show_batch/sheet.h"

#include <algorithm>
#include <cmath>

#include "common/sample_picture.h"
#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

constexpr int kLeastSide = 112;  // side of a tile in pixels; keeps captions legible
constexpr int kMostSide = 320;
constexpr int kStrip = 24;  // caption above each tile
constexpr int kGap = 6;
constexpr int kMostSheet = 30000;  // pixels per side

Picture Enlarge(const Picture& picture, int factor) {
  Picture large{.width = picture.width * factor,
                .height = picture.height * factor,
                .channels = 3,
                .pixels = {}};
  for (int y = 0; y < large.height; ++y) {
    for (int x = 0; x < large.width; ++x) {
      const int pixel = y / factor * picture.width + x / factor;
      for (int c = 0; c < 3; ++c) {
        const int value = pixel * picture.channels + std::min(c, picture.channels - 1);
        large.pixels.push_back(picture.pixels[static_cast<size_t>(value)]);
      }
    }
  }
  return large;
}

Picture Fit(const Picture& picture) {
  const int longest = std::max(picture.width, picture.height);
  return Enlarge(Shrink(picture, kMostSide), std::max(1, kLeastSide / longest));
}

void Paste(const Picture& tile, int left, int top, Picture* sheet) {
  const auto row = static_cast<size_t>(tile.width) * 3;
  for (int y = 0; y < tile.height; ++y) {
    const size_t at = (static_cast<size_t>(top + y) * static_cast<size_t>(sheet->width) +
                       static_cast<size_t>(left)) *
                      3;
    std::copy_n(tile.pixels.begin() + static_cast<int64_t>(static_cast<size_t>(y) * row), row,
                sheet->pixels.begin() + static_cast<int64_t>(at));
  }
}

// Captions of boxes are above the frame of their tile.
void AddBoxes(const Tile& tile, const Picture& shown, int left, int top,
              std::vector<CaptionedBox>* boxes) {
  constexpr int kFrameColor = 5;
  boxes->push_back({.box = {.xmin = left - 1.0,
                            .ymin = top - 1.0,
                            .xmax = left + static_cast<double>(shown.width),
                            .ymax = top + static_cast<double>(shown.height)},
                    .caption = tile.caption,
                    .color = kFrameColor});
  for (CaptionedBox box : tile.boxes) {
    box.box = {.xmin = left + box.box.xmin * shown.width,
               .ymin = top + box.box.ymin * shown.height,
               .xmax = left + box.box.xmax * shown.width,
               .ymax = top + box.box.ymax * shown.height};
    boxes->push_back(box);
  }
}

int ColumnsOf(size_t tiles, int columns, const Picture& tile) {
  if (columns > 0) return std::min(columns, static_cast<int>(tiles));
  const double aspect = static_cast<double>(tile.height + kStrip) / tile.width;
  return std::max(1, static_cast<int>(std::lround(std::sqrt(static_cast<double>(tiles) * aspect))));
}

}  // namespace

std::string EncodeSheet(const std::vector<Tile>& tiles, int most_columns, const std::string& path) {
  std::vector<Picture> shown;
  for (const Tile& tile : tiles) shown.push_back(Fit(tile.picture));
  const int columns = ColumnsOf(tiles.size(), most_columns, shown[0]);
  const int rows = (static_cast<int>(tiles.size()) + columns - 1) / columns;
  const int across = shown[0].width + kGap;
  const int down = shown[0].height + kStrip + kGap;
  if (columns > kMostSheet / across || rows > kMostSheet / down) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(tiles.size(), " pictures of ", shown[0].width, "x", shown[0].height,
                " pixels do not fit on a sheet; show fewer with --count"));
  }
  Picture sheet{.width = columns * across + kGap, .height = rows * down + kGap, .pixels = {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.width) * static_cast<size_t>(sheet.height) * 3,
                      255);
  std::vector<CaptionedBox> boxes;
  for (size_t i = 0; i < tiles.size(); ++i) {
    const int left = kGap + static_cast<int>(i) % columns * across;
    const int top = kGap + kStrip + static_cast<int>(i) / columns * down;
    Paste(shown[i], left, top, &sheet);
    AddBoxes(tiles[i], shown[i], left, top, &boxes);
  }
  const std::string png = EncodePng(sheet);
  try {
    Image image;
    DecodeImage(png, ColorMode::kColor, "the sheet", &image);
    DrawBoxes(boxes, &image);
    return EncodePicture(image, path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    return png;
  }
}

}  // namespace crema::tools
