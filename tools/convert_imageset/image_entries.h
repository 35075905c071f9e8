// Lists the images of a data set.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

struct ImageEntry {
  std::string name;  // as listed, relative to the root
  std::string path;
  std::string place;  // "line 3 of 'list.txt'"; empty: from a folder
  int label = 0;

  // Returns "'root/a.jpg' (line 3 of 'list.txt')", for messages.
  std::string Describe() const;
};

// Reads a list as ImageList does, with one whole number for each image. Prepends `root` to each
// path, with a slash if it is a folder. Throws kNotFound, kIoFailure, kDataLoss (naming the line).
std::vector<ImageEntry> ReadImageEntries(const std::string& list, const std::string& root);

// Lists the image files below each folder in `root`, as ImageData does. Throws kNotFound, and like
// ImageList.
struct ClassFolders {
  std::vector<std::string> classes;
  std::vector<ImageEntry> entries;
};
ClassFolders ReadClassFolders(const std::string& root);

}  // namespace crema::tools
