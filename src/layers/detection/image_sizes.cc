#include "layers/detection/image_sizes.h"

#include <cmath>
#include <sstream>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"

namespace crema {
namespace {

// Returns the part of the net's input that the image covers; the rest is padding.
Box CoveredPart(const ImageSize& image, const ResizeParameter& resize) {
  const double height = resize.height();
  const double width = resize.width();
  const double aspect = image.width / image.height;
  Box part{0, 0, 1, 1};
  if (height <= 0 || width <= 0) return part;
  if (aspect > width / height) {
    part.ymin = (height - width / aspect) / 2 / height;
    part.ymax = 1 - part.ymin;
  } else {
    part.xmin = (width - height * aspect) / 2 / width;
    part.xmax = 1 - part.xmin;
  }
  return part;
}

}  // namespace

std::vector<ImageSize> ReadImageSizes(const std::string& path) {
  std::vector<ImageSize> sizes;
  int line_number = 0;
  for (const std::string& line : Split(ReadDataFile(path), '\n')) {
    ++line_number;
    if (Trim(line).empty()) continue;
    std::istringstream fields(line);
    ImageSize size;
    if (!(fields >> size.name >> size.height >> size.width) || !(size.height > 0) ||
        !(size.width > 0) || !std::isfinite(size.height * size.width)) {
      Fail(ErrorCode::kDataLoss, StrCat("'", Trim(line), "' is not `name height width`"),
           {.file = path, .line = line_number});
    }
    sizes.push_back(std::move(size));
  }
  if (sizes.empty()) Fail(ErrorCode::kDataLoss, "no line `name height width`", {.file = path});
  return sizes;
}

Box ToPixels(const Box& box, const ImageSize& image, const ResizeParameter* resize) {
  Box inside = box;
  if (resize != nullptr && resize->resize_mode() == ResizeParameter::FIT_LARGE_SIZE_AND_PAD) {
    const Box part = CoveredPart(image, *resize);
    inside = {(box.xmin - part.xmin) / part.width(), (box.ymin - part.ymin) / part.height(),
              (box.xmax - part.xmin) / part.width(), (box.ymax - part.ymin) / part.height()};
  }
  return Scale(Clip(inside, 1, 1), image.width, image.height);
}

}  // namespace crema
