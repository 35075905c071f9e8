// Finds the labelled pictures of a job, in the layouts that people have them in.
#pragma once

#include <optional>
#include <string>

#include "boxes/picture_set.h"

namespace crema::tools {

// Returns "classify", "detect" or "segment".
const char* NameOf(PictureTask task);

// Reads the pictures at `path`, the value of the flag `flag`: a folder, or a file that lists them.
// `task` chooses between layouts that `path` has at once; without it, the layout decides. Throws
// kNotFound, kIoFailure, kDataLoss (a list or annotation that is wrong, with its line;
// two classes of one name), kInvalidArgument: no layout that is known, which lists what is there
// and what could be, or a class without pictures.
PictureSet ReadPictures(const std::string& path, const std::string& flag,
                        const std::optional<PictureTask>& task);

}  // namespace crema::tools
