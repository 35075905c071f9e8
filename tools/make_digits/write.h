// Writes drawn digits as folders of files.
#pragma once

#include <cstdint>
#include <string>

namespace crema::tools {

struct DigitFiles {
  std::string folder;  // new
  int count = 0;
  uint64_t seed = 1;
  int side = 160;  // of pictures with several digits
};

// All throw kInvalidArgument if the folder exists, kIoFailure.

// Writes <digit>/<index>.png: a folder for each class.
void WriteClassFolders(const DigitFiles& files);
// Writes a folder in the layout of PASCAL VOC: JPEGImages, Annotations,
// ImageSets/Main/trainval.txt.
void WriteVocFolder(const DigitFiles& files);
// Writes images/, masks/ with a label map for each (background and the digits), and labels.txt.
void WriteMaskFolder(const DigitFiles& files);

}  // namespace crema::tools
