// Reads pictures with one class each.
#pragma once

#include <string>

#include "new/pictures.h"

namespace crema::tools {

// Reads a folder with a folder of images for each class. Throws kInvalidArgument for a folder that
// holds the sets (train, test) and not the classes, kDataLoss for a class without images.
PictureSet ReadClassFolders(const std::string& folder, const std::string& flag);

// Reads `path,class` a line; the class is a name or a number, and paths begin at the folder of the
// file. A first line that names no image is a heading. Throws kNotFound, kDataLoss with the line.
PictureSet ReadCsvPictures(const std::string& file);

// Reads Caffe's list, `path number` a line. Classes take their names from labels.txt beside it.
// Throws kNotFound; kDataLoss with the line, also for a label without name if there are names.
PictureSet ReadListedPictures(const std::string& file);

}  // namespace crema::tools
