// Draws many small pictures with captions and boxes on one sheet.
#pragma once

#include <string>
#include <vector>

#include "data/image/draw_boxes.h"
#include "data/image/png.h"

namespace crema::tools {

struct Tile {
  Picture picture;
  std::string caption;
  std::vector<CaptionedBox> boxes;  // in units of the picture, 0 to 1
};

// `columns` tiles per row; 0: approximately square. Enlarges small pictures pixel by pixel, shrinks
// large ones. Returns a file in the format of the extension of `path`; without OpenCV, a PNG
// without captions and boxes. Requires: at least one tile, all of one size. Throws kInvalidArgument
// for an unsupported extension, or too many tiles.
std::string EncodeSheet(const std::vector<Tile>& tiles, int columns, const std::string& path);

}  // namespace crema::tools
