// Reads annotation files of COCO.
#pragma once

#include <string>
#include <vector>

#include "boxes/annotation.h"

namespace crema::tools {

struct CocoSet {
  struct Picture {
    std::string file_name = {};  // as in the file
    BoxAnnotation boxes = {};
  };
  std::vector<std::string> classes;  // by rising id
  std::vector<Picture> pictures;     // in the order of the file
};

// Reads images, categories and boxes of an instances_*.json; a crowd becomes a difficult object.
// Boxes that reach out of the image by rounding are cut. Throws kNotFound, kIoFailure, kDataLoss:
// no JSON, no images or categories, an annotation of an unknown image or category, a box without
// four numbers, without area or outside of its image.
CocoSet ReadCoco(const std::string& file);

}  // namespace crema::tools
