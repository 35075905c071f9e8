// Many small pictures with captions and boxes on one.
#pragma once

#include <string>
#include <vector>

#include "common/png.h"
#include "data/image/draw_boxes.h"

namespace crema::tools {

struct Tile {
  Picture picture;
  std::string caption;
  std::vector<CaptionedBox> boxes;  // in units of the picture, 0 to 1
};

// `columns` tiles a row, 0: as many as make it about square; pictures that are small are enlarged
// pixel by pixel, large ones shrunk. Returns a file of the kind that `path` names; without OpenCV
// that is a PNG without captions and boxes. Requires: tiles of one size, at least one. Throws
// kInvalidArgument for an extension that cannot be written, or tiles that are too many.
std::string EncodeSheet(const std::vector<Tile>& tiles, int columns, const std::string& path);

}  // namespace crema::tools
