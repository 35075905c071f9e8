// Finds the labelled pictures of a job, in the layouts that people have them in.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "boxes/annotation.h"

namespace crema::tools {

enum class PictureTask { kClassify, kDetect, kSegment };

// Returns "classify", "detect" or "segment".
const char* NameOf(PictureTask task);

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

  std::string PathOf(const LabelledPicture& picture) const { return root + picture.name; }
};

// Reads the pictures at `path`, the value of the flag `flag`: a folder, or a file that lists them.
// `task` chooses between layouts that `path` has at once; without it, the layout decides. Throws
// kNotFound, kIoFailure, kDataLoss (a list or annotation that is wrong, with its line;
// two classes of one name), kInvalidArgument: no layout that is known, which lists what is there
// and what could be, or a class without pictures.
PictureSet ReadPictures(const std::string& path, const std::string& flag,
                        const std::optional<PictureTask>& task);

}  // namespace crema::tools
