// Reads pictures with a label map each: an image whose pixel values are classes.
#pragma once

#include <string>
#include <vector>

#include "data/image/image.h"
#include "new/pictures.h"

namespace crema::tools {

inline constexpr int kIgnoredLabel = 255;  // pixels without class

// Pairs pictures and label maps by their paths without extension. The classes are the lines of
// labels.txt or classes.txt in one of the folders or the one above; without one, numbers up to the
// largest label. Throws kNotFound, kIoFailure; kDataLoss for a picture without label map or the
// reverse, and for labels without class.
PictureSet ReadMaskPictures(const std::string& images, const std::string& masks);

// Decodes a label map: one channel of labels. Of a file with a palette the labels are the numbers
// of its colors. Throws kDataLoss for one with colors and without palette.
Image ReadLabelMapImage(const std::string& path);

}  // namespace crema::tools
