// Labelled pictures of a data set.
#pragma once

#include <string>
#include <vector>

#include "boxes/annotation.h"

namespace crema::tools {

enum class PictureTask { kClassify, kDetect, kSegment };

struct LabelledPicture {
  std::string name = {};     // of its file, after the root of its set
  std::string label = {};    // classify: its class
  BoxAnnotation boxes = {};  // detect
  std::string mask = {};     // segment: path of its label map
};

struct PictureSet {
  PictureTask task = PictureTask::kClassify;
  std::string layout = {};                // "class folders", for messages
  std::string root = {};                  // before each name; ends with a slash unless it is empty
  std::vector<std::string> classes = {};  // names by label; see SetClassesAndShares
  std::vector<double> shares = {};        // segment: of the classes in all pixels
  std::vector<LabelledPicture> pictures = {};  // in a fixed order
  std::string tests = {};  // file that names pictures for tests, too; empty: none

  std::string PathOf(const LabelledPicture& picture) const { return root + picture.name; }
};

}  // namespace crema::tools
