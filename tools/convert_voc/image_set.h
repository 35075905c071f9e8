// Image sets of PASCAL VOC.
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

// The images of ImageSets/Main/`set`.txt in `folder`, a year of VOC or what is laid out like one:
// Annotations/NAME.xml and JPEGImages/NAME.jpg (or another extension of image files). A line is a
// name; with a number behind it (lists of a class) those with -1, which do not show the class, are
// left out. Throws kNotFound, kIoFailure, kDataLoss for a set without images.
std::vector<VocEntry> ReadImageSet(const std::string& folder, const std::string& set);

}  // namespace crema::tools
