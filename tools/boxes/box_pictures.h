// Reads pictures with boxes around objects.
#pragma once

#include <string>
#include <vector>

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

// Reads the pictures that a data.yaml names with the first of these fields that it has: a folder, a
// text file with the names of pictures, or several of both; relative to its `path`, else to its own
// folder. Labels as above. Throws for a .yaml without any of the fields, too.
PictureSet ReadYoloData(const std::string& file, const std::vector<std::string>& fields);

// Returns the data.yaml in the folder if that says which pictures are to train; else nothing.
std::string FindYoloData(const std::string& folder);

// Returns the file with the names of YOLO's classes in the folder or up to two folders above; empty
// if there is none.
std::string FindYoloNames(const std::string& folder);

}  // namespace crema::tools
