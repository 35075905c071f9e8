// Reads labels of YOLO: a text file for each picture, and the names of the classes.
#pragma once

#include <string>
#include <vector>

#include "boxes/annotation.h"

namespace crema::tools {

// Reads lines `class x y width height` with the center and size in units of the picture, or
// `class x y x y x y ...`, a polygon, of which the box is taken. Corners that are outside by
// rounding are cut. The annotation has the size 1x1. Throws kNotFound, kIoFailure, kDataLoss with
// the line: not such numbers, a class without name, a box without area or outside of the picture.
BoxAnnotation ReadYoloLabels(const std::string& file, const std::vector<std::string>& names);

// Reads the names of the classes: `names` of a .yaml file, as a list or by number, else a name a
// line. Throws kNotFound, kIoFailure, kDataLoss.
std::vector<std::string> ReadYoloNames(const std::string& file);

}  // namespace crema::tools
