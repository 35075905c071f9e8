// Reads pictures with a label map each: an image whose pixel values are classes.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "new/pictures.h"

namespace crema::tools {

inline constexpr int kIgnoredLabel = 255;  // pixels without class

using LabelCounts = std::array<int64_t, 256>;  // pixels by label

// Pairs pictures and label maps by their paths without extension. The classes are the lines of
// labels.txt or classes.txt in one of the folders or the one above; empty without one. Throws
// kNotFound, kIoFailure; kDataLoss for a picture without label map or the reverse.
PictureSet ReadMaskPictures(const std::string& images, const std::string& masks);

// Decodes a label map: one channel of labels. Of a file with a palette the labels are the numbers
// of its colors. Throws kDataLoss for one with colors and without palette.
Image ReadLabelMapImage(const std::string& path);

// Returns the number of pixels of each label in the label map of a picture. Throws kDataLoss for a
// map of another size than the picture, and for a label without name if there are names.
LabelCounts CountLabels(const LabelledPicture& picture, const Image& image, const Image& map,
                        const std::vector<std::string>& names);

// Sets the shares of the classes in all pixels. Without names, the classes are the numbers up to
// the largest label.
void SetClassesAndShares(const LabelCounts& counts, PictureSet* set);

}  // namespace crema::tools
