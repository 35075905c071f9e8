// Reads pictures with boxes around objects.
#pragma once

#include <string>

#include "boxes/picture_set.h"

namespace crema::tools {

// All throw kNotFound, kIoFailure and kDataLoss, which names the annotation and its line.

// Reads Annotations/NAME.xml and the picture NAME in JPEGImages/ or images/, or both in `folder`
// itself. If there is ImageSets/Main/`set`.txt, it says which. Classes in the order of their names.
PictureSet ReadVocPictures(const std::string& folder, const std::string& set);

// Reads instances_*.json. Its file names begin in a folder that is found: the folder of the file,
// one in it, the one above, or one beside.
PictureSet ReadCocoPictures(const std::string& file);

// Reads pictures below `folder` and a .txt with labels for each: in labels/ in place of images/, or
// beside it. A picture without one has no objects. `names` has the names of the classes.
PictureSet ReadYoloPictures(const std::string& folder, const std::string& names);

// Returns the file with the names of YOLO's classes in the folder or up to two folders above; empty
// if there is none.
std::string FindYoloNames(const std::string& folder);

}  // namespace crema::tools
