// Reads image sets of PASCAL VOC.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

struct VocEntry {
  std::string name;        // "VOC2007/JPEGImages/000005.jpg"
  std::string image;       // paths
  std::string annotation;  //
  std::string place;       // "line 3 of 'VOC2007/ImageSets/Main/trainval.txt'"
};

// Returns the images of ImageSets/Main/`set`.txt in `folder`, a year of VOC or a folder in its
// layout: Annotations/NAME.xml and JPEGImages/NAME.jpg (or another image extension). A line is a
// name, optionally with a number (class lists); skips lines with -1, whose images lack the class.
// Throws kNotFound, kIoFailure, kDataLoss for a set without images.
std::vector<VocEntry> ReadImageSet(const std::string& folder, const std::string& set);

}  // namespace crema::tools
