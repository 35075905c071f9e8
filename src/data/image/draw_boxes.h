// Boxes with captions on a picture.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace crema {

struct PixelBox {
  double xmin = 0;
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
};

struct CaptionedBox {
  PixelBox box;
  std::string caption;
  int color = 0;  // which of a few colors; any number
};

// Decodes an image file, draws, and encodes it in the format that the extension of `path` names.
// Returns the file. Throws kDataLoss (`name` begins the message) for a broken image,
// kInvalidArgument for an extension that cannot be written, kUnsupported without OpenCV.
std::string DrawBoxes(std::string_view bytes, const std::string& name,
                      std::span<const CaptionedBox> boxes, const std::string& path);

}  // namespace crema
