// Reads labels of YOLO: a text file for each picture, and the names of the classes.
#pragma once

#include <string>
#include <vector>

#include "boxes/annotation.h"

namespace crema::tools {

struct YoloClasses {
  std::vector<std::string> names;
  size_t keypoint_numbers = 0;  // after the box of a label: `kpt_shape`, 17 points of 3 numbers
};

// Reads lines `class x y width height` with the center and size in units of the picture, with key
// points after them if the classes have some, which are ignored, or `class x y x y x y ...`, a
// polygon, of which the box is taken. Corners that are outside by rounding are cut. The annotation
// has the size 1x1. Throws kNotFound, kIoFailure, kDataLoss with the line: not such numbers, a
// class without name, a box without area or outside of the picture.
BoxAnnotation ReadYoloLabels(const std::string& file, const YoloClasses& classes);

bool IsYaml(const std::string& file);

// Reads the names of the classes: `names` of a .yaml file, as a list or by number, which must be as
// many as `nc` if it has that, and its `kpt_shape`; else a name a line. Throws kNotFound,
// kIoFailure, kDataLoss.
YoloClasses ReadYoloClasses(const std::string& file);

}  // namespace crema::tools
