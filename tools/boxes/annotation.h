// Reads annotation files of PASCAL VOC.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema::tools {

struct BoxObject {
  std::string name = {};  // name of its class
  int line = 0;           // in the file
  int column = 0;         //
  double xmin = 0;        // pixels, as in the file
  double ymin = 0;
  double xmax = 0;
  double ymax = 0;
  bool difficult = false;
};

struct BoxAnnotation {
  std::string path;
  int width = 0;  // pixels; 0: not given
  int height = 0;
  std::vector<BoxObject> objects;
};

// Throws kNotFound, kIoFailure, and kDataLoss with the line: malformed XML, another root element,
// an object without name or box, a corner that is not a number. Thread safety: any number of
// threads.
BoxAnnotation ReadVocAnnotation(const std::string& path);

// Adds the boxes to `record` in units of the image: corners divided by the annotation's width or
// height, as in SSD (VOC counts pixels from 1, which is not corrected). One group per label, in
// file order; instances are numbered within their group. `image` is the image size, for annotations
// without one. Returns warnings. Throws kInvalidArgument for a class without label, kDataLoss for a
// box that is inverted or outside of the image.
std::vector<std::string> AddBoxes(const BoxAnnotation& annotation,
                                  const std::map<std::string, int>& labels, const Shape& image,
                                  AnnotatedDatum* record);

}  // namespace crema::tools
