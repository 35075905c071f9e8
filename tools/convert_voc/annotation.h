// Annotation files of PASCAL VOC.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::tools {

struct VocObject {
  std::string name;  // of its class
  int line = 0;      // of the file
  int column = 0;    //
  double xmin = 0;   // pixels, as the file says
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
  bool difficult = false;
};

struct VocAnnotation {
  std::string path;
  int width = 0;  // pixels; 0: the file does not say
  int height = 0;
  std::vector<VocObject> objects;
};

// Throws kNotFound, kIoFailure, and kDataLoss with the line: no XML, no annotation, an object
// without name or box, a corner that is no number. Thread safety: any number of threads.
VocAnnotation ReadVocAnnotation(const std::string& path);

// Puts the boxes into `record`, in units of the image: each corner divided by the width or height
// that the annotation gives, as SSD does (VOC counts pixels from 1, which it does not correct).
// One group for each label, in the order of the file; instances are numbered in their group.
// `image` is the size of the image file, for annotations without. Returns warnings.
// Throws kInvalidArgument for a class that has no label, kDataLoss for a box that is turned inside
// out or lies outside of the image.
std::vector<std::string> AddBoxes(const VocAnnotation& annotation,
                                  const std::map<std::string, int>& labels, const Shape& image,
                                  AnnotatedDatum* record);

}  // namespace crema::tools
